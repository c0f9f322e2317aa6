//! Whether there is room left on the disk.

use std::path::Path;

/// Once low, a disk must have so much more room than the limit, or crawling would stop and
/// go all the time.
const ROOM_TO_GO_ON: (u64, u64) = (5, 4);

/// Whether less than so many bytes are free where the state is kept. A disk that cannot be
/// asked is not low: who writes to it will find out.
pub(super) fn is_low(state: &Path, limit: usize, was_low: bool) -> bool {
    let Ok(disk) = rustix::fs::statvfs(state) else {
        return false;
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let limit = limit as u64;
    let (more, than) = ROOM_TO_GO_ON;
    if was_low {
        free < limit / than * more
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
        // A tenth less than what is free is no reason to stop, nor to go on.
        let nearly = free / 10 * 9;
        assert!(!is_low(here, nearly, false));
        assert!(is_low(here, nearly, true));
        assert!(!is_low(Path::new("no/such/place"), 1 << 50, false));
    }
}
