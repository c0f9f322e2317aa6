//! A server in a separate process, so that its cost is not counted as ours.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// The server process, killed on drop.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts this program again with other arguments. It must print its address, and exit when its
    /// standard input is closed.
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
        read.expect("the server prints its address");
        Self {
            process,
            address: address.trim().parse().expect("an address"),
        }
    }

    /// Its process id.
    pub(crate) fn process(&self) -> String {
        self.process.id().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
