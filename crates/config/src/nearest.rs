//! "Did you mean": the known key that is nearest to an unknown one.

/// The nearest of `known`, if one is near enough to be meant.
pub(crate) fn nearest<'k>(found: &str, known: &[&'k str]) -> Option<&'k str> {
    if found.len() > COMPARED_MAX_BYTES {
        return None;
    }
    let folded = found.to_lowercase().replace('-', "_");
    known
        .iter()
        .map(|candidate| (distance(&folded, candidate), *candidate))
        .filter(|(far, candidate)| *far <= (candidate.len() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edits from `a` to `b`: a character more, less, another, or two exchanged (optimal string
/// alignment).
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &to) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(from != to)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from == b[j - 1] && a[i - 1] == to {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// No key is longer, and comparing costs the product of both lengths.
const COMPARED_MAX_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_recognised_and_other_words_are_not() {
        let known = ["probe_period", "probe_timeout", "bind", "join", "monitor"];
        for (found, want) in [
            ("probe-period", Some("probe_period")),
            ("probe_peroid", Some("probe_period")),
            ("Bind", Some("bind")),
            ("jion", Some("join")),
            ("monitors", Some("monitor")),
            ("colour", None),
            ("", None),
            ("äöü", None),
        ] {
            assert_eq!(nearest(found, &known), want, "{found}");
        }
        assert_eq!(nearest(&"b".repeat(100_000), &known), None);
    }
}
