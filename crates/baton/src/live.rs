//! Rows that are redrawn in place while something goes on, on a terminal.
//!
//! Invariant: it never draws more rows than a usual terminal has, and leaves the last picture
//! standing.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Failure;
use crate::output::{Output, clean};

/// A picture of a few lines.
#[derive(Debug)]
pub(crate) struct Live {
    screen: MultiProgress,
    rows: Vec<ProgressBar>,
    /// What the rows show, so that only those that change are drawn again.
    shown: Vec<String>,
}

impl Live {
    /// An empty picture on this terminal.
    pub(crate) fn new() -> Self {
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        Self { screen, rows: Vec::new(), shown: Vec::new() }
    }

    /// Draws `lines` where the last picture was.
    pub(crate) fn draw(&mut self, lines: &[String]) {
        let left_out = lines.len().saturating_sub(ROWS_MAX);
        let mut lines: Vec<String> = lines.iter().take(ROWS_MAX).map(|line| clean(line)).collect();
        if left_out > 0 {
            lines.push(format!("  … and {left_out} more (`baton rollout status` lists all)"));
        }
        while self.rows.len() > lines.len() {
            if let Some(row) = self.rows.pop() {
                row.finish_and_clear();
                self.screen.remove(&row);
            }
        }
        while self.rows.len() < lines.len() {
            let row = self.screen.add(ProgressBar::new_spinner());
            // The template is a constant; were it wrong, the default style would show.
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                row.set_style(style);
            }
            self.rows.push(row);
        }
        for (at, (row, line)) in self.rows.iter().zip(&lines).enumerate() {
            if self.shown.get(at) != Some(line) {
                row.set_message(line.clone());
                row.tick();
            }
        }
        self.shown = lines;
    }

    /// Leaves the last picture standing; what is printed next goes below it.
    pub(crate) fn finish(self, output: &mut Output) -> Result<(), Failure> {
        for row in &self.rows {
            row.abandon();
        }
        output.write(if self.rows.is_empty() { "" } else { "\n" })
    }
}

/// A head of a dozen lines and a group of usual size; the terminal's own height cuts further.
const ROWS_MAX: usize = 40;
