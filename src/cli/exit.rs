//! All exit codes of the program.

use std::io;

use thiserror::Error;

use crate::classify::{BackgroundFileError, ModelFileError};
use crate::external::UnfitModel;
use crate::fetch::{ArchiveError, LiveWebError, RecordError};
use crate::store::StoreError;
use crate::training::LabelsError;

/// The settings have problems, listed line by line.
#[derive(Debug, Error)]
#[error("the settings cannot be used{0}")]
pub(super) struct UnusableSettings(pub(super) String);

/// A file of sites has problems, listed line by line.
#[derive(Debug, Error)]
#[error("the sites cannot be used:\n{}", .0.join("\n"))]
pub(super) struct UnusableSites(pub(super) Vec<String>);

/// How a command ended. The numbers are part of the interface: scripts and systemd act on
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// Done.
    Success,
    /// It failed; the message gives the reason.
    Failure,
    /// The command line cannot be understood.
    Usage,
    /// An input is damaged or is not what it should be. `EX_DATAERR` of sysexits.h.
    DamagedData,
    /// A disk is full, cannot be written to, or fails. What was recorded is kept. `EX_IOERR`
    /// of sysexits.h.
    Disk,
    /// The settings or the clock of the machine cannot be used; starting again will not help.
    /// `EX_CONFIG` of sysexits.h.
    Config,
}

/// The exit codes in `--help`.
pub(super) const HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 65 damaged input, 74 full or
unusable disk, 78 unusable settings or clock";

impl ExitCode {
    #[must_use]
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::DamagedData => 65,
            Self::Disk => 74,
            Self::Config => 78,
        }
    }

    /// The code for an error, by what caused it.
    pub(super) fn of(error: &anyhow::Error) -> Self {
        let is_bad_settings = error.downcast_ref::<UnusableSettings>().is_some()
            || error.downcast_ref::<LiveWebError>().is_some()
            || error.downcast_ref::<UnfitModel>().is_some();
        let is_bad_clock = matches!(
            error.downcast_ref::<StoreError>(),
            Some(StoreError::WrongClock { .. })
        );
        if is_bad_settings || is_bad_clock {
            return Self::Config;
        }
        let is_bad_input = error.downcast_ref::<LabelsError>().is_some()
            || error.downcast_ref::<UnusableSites>().is_some()
            || error.downcast_ref::<ModelFileError>().is_some()
            || error.downcast_ref::<BackgroundFileError>().is_some();
        let is_bad_store = matches!(
            error.downcast_ref::<StoreError>(),
            Some(
                StoreError::Damaged { .. }
                    | StoreError::Newer
                    | StoreError::Foreign(_)
                    | StoreError::Unfinished(_)
                    | StoreError::Lost(_)
            )
        );
        if is_bad_input || is_bad_store {
            return Self::DamagedData;
        }
        if is_disk_trouble(error) {
            return Self::Disk;
        }
        match error.downcast_ref::<ArchiveError>() {
            Some(ArchiveError::Damaged { .. } | ArchiveError::NotAnArchive { .. }) => {
                Self::DamagedData
            }
            _ => Self::Failure,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        code.number().into()
    }
}

/// Whether the disk failed, whatever was to be written.
fn is_disk_trouble(error: &anyhow::Error) -> bool {
    let is_of_disk = |kind: io::ErrorKind| {
        matches!(
            kind,
            io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge
                | io::ErrorKind::ReadOnlyFilesystem
        )
    };
    let is_store = matches!(
        error.downcast_ref::<StoreError>(),
        Some(StoreError::Full(_) | StoreError::ReadOnly(_) | StoreError::Unusable { .. })
    );
    let is_recording = matches!(
        error.downcast_ref::<RecordError>(),
        Some(RecordError::Create { source, .. } | RecordError::Write { source, .. })
            if is_of_disk(source.kind())
    );
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    is_store || is_recording || causes.any(|cause: &io::Error| is_of_disk(cause.kind()))
}

/// Whether the reader of the output closed it, as `head` does. That is no failure.
pub(super) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
