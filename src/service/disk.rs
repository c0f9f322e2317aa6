//! Free space on the disk of the state directory.

use std::path::Path;

/// Hysteresis: once low, a disk needs 5/4 of the limit before crawling resumes, or crawling would
/// stop and start all the time.
const RESUME_FACTOR: (u64, u64) = (5, 4);

/// Whether less than `limit` bytes are free. A disk that cannot be queried is not low: the next
/// write to it will show.
pub(super) fn is_low(state: &Path, limit: usize, was_low: bool) -> bool {
    let Ok(disk) = rustix::fs::statvfs(state) else {
        return false;
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let limit = limit as u64;
    let (numerator, denominator) = RESUME_FACTOR;
    if was_low {
        free < limit / denominator * numerator
    } else {
        free < limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_low_below_the_limit_and_until_there_is_clearly_more() {
        let here = Path::new(".");
        assert!(!is_low(here, 0, false));
        assert!(is_low(here, 1 << 50, false));
        let disk = rustix::fs::statvfs(here).unwrap();
        let free = usize::try_from(disk.f_bavail * disk.f_frsize).unwrap();
        // With a limit of nine tenths of what is free, crawling neither stops nor resumes.
        let nearly = free / 10 * 9;
        assert!(!is_low(here, nearly, false));
        assert!(is_low(here, nearly, true));
        assert!(!is_low(Path::new("no/such/place"), 1 << 50, false));
    }
}
