//! Which addresses count as one.
//!
//! An IPv4 address is one machine, or several behind it. Of IPv6 every customer has a network of
//! 64 bits at least (RFC 6177, RFC 7421), and a machine in it may answer at each of 2^64
//! addresses, so the network is what an IPv4 address is.

use std::net::{IpAddr, Ipv6Addr};

/// What stands for an address where requests are paced and sites are counted: an IPv4 address
/// itself, also if it came mapped into IPv6, and the network of 64 bits of an IPv6 address.
#[must_use]
pub(crate) fn shared_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(network).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_stands_for_itself_and_ipv6_for_its_network() {
        for (address, shared) in [
            ("93.184.216.34", "93.184.216.34"),
            ("93.184.216.35", "93.184.216.35"),
            ("::ffff:93.184.216.34", "93.184.216.34"),
            ("2606:2800:21f:cb07::1", "2606:2800:21f:cb07::"),
            ("2606:2800:21f:cb07:ffff::", "2606:2800:21f:cb07::"),
            ("2606:2800:21f:cb08::1", "2606:2800:21f:cb08::"),
        ] {
            let found = shared_address(address.parse().unwrap());
            assert_eq!(found.to_string(), shared, "{address}");
        }
    }
}
