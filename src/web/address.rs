//! Which IP addresses count as one.
//!
//! An IPv4 address is one machine, or several behind it. An IPv6 customer has at least a /64
//! (RFC 6177, RFC 7421), and one machine may answer at all of its 2^64 addresses, so the /64 is the
//! counterpart of an IPv4 address.

use std::net::{IpAddr, Ipv6Addr};

/// The key by which requests are rate-limited and sites are counted: an IPv4 address itself, also
/// if it is mapped into IPv6, and the /64 of an IPv6 address.
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
