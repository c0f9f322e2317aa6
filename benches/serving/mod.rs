//! A server in a process of its own, so that what it costs is not counted as ours.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// The server's process, which ends with this.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts this program again with other arguments. It is to print where it listens, and to
    /// end when its standard input does.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("a program"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a second process");
        let output = process.stdout.take().expect("it is piped");
        let mut address = String::new();
        let read = BufReader::new(output).read_line(&mut address);
        read.expect("the server says where it is");
        Self {
            process,
            address: address.trim().parse().expect("an address"),
        }
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> String {
        self.process.id().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone after this.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
