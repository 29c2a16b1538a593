//! The two clocks and the boot that the first of them counts from.

use std::io;
use std::path::Path;

use baton_types::{Moment, Now, WallTime};
use rustix::time::{ClockId, clock_gettime};

/// Both clocks at one instant.
pub fn now() -> Now {
    let boot = clock_gettime(ClockId::Boottime);
    let real = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(boot.tv_sec).unwrap_or(0);
    let micros = u64::try_from(boot.tv_nsec / 1_000).unwrap_or(0);
    Now {
        moment: Moment(seconds.saturating_mul(1_000_000).saturating_add(micros)),
        wall: WallTime(real.tv_sec.saturating_mul(1_000).saturating_add(real.tv_nsec / 1_000_000)),
    }
}

/// The id that the kernel drew at this boot.
pub fn boot_id() -> io::Result<String> {
    boot_id_from(Path::new(BOOT_ID_PATH))
}

/// The boot id in the file `path`, for tests that play a reboot.
pub fn boot_id_from(path: &Path) -> io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    let id = text.trim();
    if id.is_empty() || id.len() > BOOT_ID_MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} holds no boot id: {} bytes found", path.display(), id.len()),
        ));
    }
    Ok(id.to_owned())
}

/// Where Linux shows the id of this boot.
pub const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// A UUID has 36 characters; anything much longer is another file.
const BOOT_ID_MAX_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_move_forward_and_know_the_century() {
        let first = now();
        let second = now();
        assert!(second.moment >= first.moment);
        assert!(first.moment > Moment(0));
        assert!(first.wall > WallTime(1_700_000_000_000));
    }

    #[test]
    fn boot_id_is_stable_and_can_be_overridden() {
        assert_eq!(boot_id().expect("an id"), boot_id().expect("an id"));
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("id");
        std::fs::write(&path, "other\n").expect("written");
        assert_eq!(boot_id_from(&path).expect("an id"), "other");
        std::fs::write(&path, "").expect("written");
        assert!(boot_id_from(&path).is_err());
    }
}
