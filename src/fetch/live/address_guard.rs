//! Which addresses a crawler may connect to.
//!
//! A name in a link is untrusted and may resolve to anything: to this machine, to the router beside
//! it, to the metadata service of the cloud. So only globally reachable addresses are connected to.
//! `IpAddr::is_global` would decide this, but is not stable.
//!
//! The blocks are those of the IANA special-purpose registries (RFC 6890) that are not globally
//! reachable, and the one public address at which a cloud serves metadata. Addresses that embed an
//! IPv4 address (mapped, translated, tunnelled) are refused whatever they embed, because a gateway
//! decides where they lead.
//!
//! Invariant: without allowed ranges, no address of a refused block is permitted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Decides which addresses may be connected to.
#[derive(Debug, Clone)]
pub(super) struct AddressGuard {
    /// Ranges that the settings permit, for instance a test server on this machine.
    allowed: Vec<IpNet>,
}

const REFUSED_IPV4: [Ipv4Net; 16] = [
    // This network, and the unspecified address.
    ipv4([0, 0, 0, 0], 8),
    // Private.
    ipv4([10, 0, 0, 0], 8),
    // Shared by the customers of a carrier.
    ipv4([100, 64, 0, 0], 10),
    // Loopback.
    ipv4([127, 0, 0, 0], 8),
    // The wire server of Azure: a public address that serves metadata.
    ipv4([168, 63, 129, 16], 32),
    // Link-local, where clouds keep their metadata.
    ipv4([169, 254, 0, 0], 16),
    // Private.
    ipv4([172, 16, 0, 0], 12),
    // Protocol assignments.
    ipv4([192, 0, 0, 0], 24),
    // Documentation.
    ipv4([192, 0, 2, 0], 24),
    // Relays of 6to4.
    ipv4([192, 88, 99, 0], 24),
    // Private.
    ipv4([192, 168, 0, 0], 16),
    // Benchmarks.
    ipv4([198, 18, 0, 0], 15),
    // Documentation.
    ipv4([198, 51, 100, 0], 24),
    ipv4([203, 0, 113, 0], 24),
    // Multicast.
    ipv4([224, 0, 0, 0], 4),
    // Reserved, and the broadcast address.
    ipv4([240, 0, 0, 0], 4),
];

/// All global unicast there is so far. Outside of it are the unspecified address, loopback,
/// mapped, compatible and translated IPv4, NAT64, discard, segment routing, unique local,
/// link-local, site-local and multicast.
const GLOBAL_UNICAST_IPV6: Ipv6Net = ipv6([0x2000, 0, 0], 3);

/// The blocks within it that are not globally reachable.
const REFUSED_IPV6: [Ipv6Net; 4] = [
    // Protocol assignments: Teredo, benchmarks, ORCHIDs, and anycast services without pages.
    ipv6([0x2001, 0, 0], 23),
    // Documentation.
    ipv6([0x2001, 0xdb8, 0], 32),
    // 6to4.
    ipv6([0x2002, 0, 0], 16),
    // Documentation.
    ipv6([0x3fff, 0, 0], 20),
];

// === impl AddressGuard ===

impl AddressGuard {
    /// Permits `allowed` in addition to globally reachable addresses.
    pub(super) fn new(allowed: Vec<IpNet>) -> Self {
        Self { allowed }
    }

    /// Whether to connect to this address.
    pub(super) fn permits(&self, address: IpAddr) -> bool {
        // The system connects to a mapped address as to the IPv4 address in it.
        let mapped = address.to_canonical();
        self.allowed
            .iter()
            .any(|range| range.contains(&address) || range.contains(&mapped))
            || is_public(address)
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_ipv4(address),
        IpAddr::V6(address) => is_public_ipv6(address),
    }
}

fn is_public_ipv4(address: Ipv4Addr) -> bool {
    !REFUSED_IPV4.iter().any(|block| block.contains(&address))
}

fn is_public_ipv6(address: Ipv6Addr) -> bool {
    GLOBAL_UNICAST_IPV6.contains(&address)
        && !REFUSED_IPV6.iter().any(|block| block.contains(&address))
        && isatap(address).is_none_or(is_public_ipv4)
}

/// The IPv4 address at the far end, if the interface identifier is one of ISATAP (RFC 5214,
/// section 6.1). Any network may use these, so there is no block to refuse.
fn isatap(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., a, b, c, d] = address.octets();
    match address.segments() {
        [_, _, _, _, 0 | 0x0200, 0x5efe, _, _] => Some(Ipv4Addr::new(a, b, c, d)),
        _ => None,
    }
}

const fn ipv4([a, b, c, d]: [u8; 4], bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

/// From the first segments, which are enough for every block above.
const fn ipv6([a, b, c]: [u16; 3], bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), bits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::{Host, Url};

    use super::*;

    fn permits(address: &str) -> bool {
        AddressGuard::new(Vec::new()).permits(address.parse().unwrap())
    }

    fn guard(allowed: &[&str]) -> AddressGuard {
        AddressGuard::new(allowed.iter().map(|range| range.parse().unwrap()).collect())
    }

    /// Every refused block, and which of its neighbours are public: before, after.
    const BLOCKS: [(&str, bool, bool); 49] = [
        ("0.0.0.0/8", false, true),
        ("10.0.0.0/8", true, true),
        ("100.64.0.0/10", true, true),
        ("127.0.0.0/8", true, true),
        ("168.63.129.16/32", true, true),
        ("169.254.0.0/16", true, true),
        ("172.16.0.0/12", true, true),
        ("192.0.0.0/24", true, true),
        ("192.0.2.0/24", true, true),
        ("192.88.99.0/24", true, true),
        ("192.168.0.0/16", true, true),
        ("198.18.0.0/15", true, true),
        ("198.51.100.0/24", true, true),
        ("203.0.113.0/24", true, true),
        ("224.0.0.0/4", true, false),
        ("240.0.0.0/4", false, false),
        ("255.255.255.255/32", false, false),
        // All below global unicast, then what is named there.
        ("::/3", false, true),
        ("::/128", false, false),
        ("::1/128", false, false),
        ("::/96", false, false),
        ("::ffff:0:0/96", false, false),
        ("::ffff:0:0:0/96", false, false),
        ("64:ff9b::/96", false, false),
        ("64:ff9b:1::/48", false, false),
        ("100::/64", false, false),
        ("100:0:0:1::/64", false, false),
        // Within global unicast.
        ("2001::/23", true, true),
        ("2001::/32", true, false),
        ("2001:1::/32", false, false),
        ("2001:2::/48", false, false),
        ("2001:3::/32", false, false),
        ("2001:10::/28", false, false),
        ("2001:20::/28", false, false),
        ("2001:30::/28", false, false),
        ("2001:db8::/32", true, true),
        ("2002::/16", true, true),
        ("3fff::/20", true, true),
        // All above it.
        ("4000::/2", true, false),
        ("8000::/1", false, false),
        ("5f00::/16", false, false),
        ("fc00::/7", false, false),
        ("fe80::/10", false, false),
        ("fec0::/10", false, false),
        ("ff00::/8", false, false),
        ("ff02::1/128", false, false),
        // Where clouds keep their metadata, in blocks that are refused as a whole.
        ("100.100.100.200/32", false, false),
        ("fd00:ec2::254/128", false, false),
        ("fd20:ce::254/128", false, false),
    ];

    fn step(address: IpAddr, by: i8) -> Option<IpAddr> {
        match address {
            IpAddr::V4(address) => {
                let bits = address.to_bits().checked_add_signed(by.into())?;
                Some(Ipv4Addr::from_bits(bits).into())
            }
            IpAddr::V6(address) => {
                let bits = address.to_bits().checked_add_signed(by.into())?;
                Some(Ipv6Addr::from_bits(bits).into())
            }
        }
    }

    #[test]
    fn blocks_are_refused_from_the_first_address_to_the_last() {
        let guard = guard(&[]);
        for (block, is_public_before, is_public_after) in BLOCKS {
            let range: IpNet = block.parse().unwrap();
            let (first, last) = (range.network(), range.broadcast());
            assert!(!guard.permits(first), "{first}");
            assert!(!guard.permits(last), "{last}");
            let before = step(first, -1).is_some_and(|before| guard.permits(before));
            assert_eq!(before, is_public_before, "before {first}");
            let after = step(last, 1).is_some_and(|after| guard.permits(after));
            assert_eq!(after, is_public_after, "after {last}");
        }
    }

    /// The same edges once more, written out, so that no arithmetic is involved.
    #[test]
    fn the_edges_of_blocks_are_where_the_registries_have_them() {
        for (refused, public) in [
            ("0.255.255.255", "1.0.0.0"),
            ("10.0.0.0", "9.255.255.255"),
            ("10.255.255.255", "11.0.0.0"),
            ("100.64.0.0", "100.63.255.255"),
            ("100.127.255.255", "100.128.0.0"),
            ("127.0.0.0", "126.255.255.255"),
            ("127.255.255.255", "128.0.0.0"),
            ("168.63.129.16", "168.63.129.15"),
            ("168.63.129.16", "168.63.129.17"),
            ("169.254.0.0", "169.253.255.255"),
            ("169.254.255.255", "169.255.0.0"),
            ("172.16.0.0", "172.15.255.255"),
            ("172.31.255.255", "172.32.0.0"),
            ("192.0.0.255", "192.0.1.0"),
            ("192.0.2.0", "192.0.1.255"),
            ("192.0.2.255", "192.0.3.0"),
            ("192.88.99.0", "192.88.98.255"),
            ("192.88.99.255", "192.88.100.0"),
            ("192.168.0.0", "192.167.255.255"),
            ("192.168.255.255", "192.169.0.0"),
            ("198.18.0.0", "198.17.255.255"),
            ("198.19.255.255", "198.20.0.0"),
            ("198.51.100.0", "198.51.99.255"),
            ("198.51.100.255", "198.51.101.0"),
            ("203.0.113.0", "203.0.112.255"),
            ("203.0.113.255", "203.0.114.0"),
            ("224.0.0.0", "223.255.255.255"),
            ("1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"),
            ("2001::", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"),
            ("2001:db8::", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"),
            ("2002::", "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"),
            ("3fff::", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
            ("4000::", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            assert!(!permits(refused), "{refused}");
            assert!(permits(public), "{public}");
        }
    }

    #[test]
    fn ordinary_addresses_are_permitted() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "151.101.1.69",
            "185.199.108.153",
            "2606:4700::6810:84e5",
            "2a00:1450:4001:82f::200e",
            "2620:0:862:ed1a::1",
            "2400:cb00:2048:1::c629:d7a2",
        ] {
            assert!(permits(address), "{address}");
        }
    }

    #[test]
    fn forms_that_lead_elsewhere_are_refused_even_with_a_public_address_inside() {
        for address in [
            "::8.8.8.8",
            "::ffff:8.8.8.8",
            "::ffff:0:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::8.8.8.8",
            "2002:808:808::1",
            "2001:0:808:808::1",
        ] {
            assert!(!permits(address), "{address}");
        }
    }

    #[test]
    fn isatap_is_as_public_as_the_address_in_it() {
        for (address, is_public) in [
            ("2a00:1450::5efe:10.0.0.1", false),
            ("2a00:1450::200:5efe:127.0.0.1", false),
            ("2a00:1450::200:5efe:169.254.169.254", false),
            ("2a00:1450::5efe:8.8.8.8", true),
            ("2a00:1450::200:5efe:8.8.8.8", true),
            ("2a00:1450::100:5efe:10.0.0.1", true),
            ("2a00:1450::5eff:10.0.0.1", true),
            ("fe80::5efe:8.8.8.8", false),
        ] {
            assert_eq!(permits(address), is_public, "{address}");
        }
    }

    #[test]
    fn no_spelling_of_a_host_hides_an_address() {
        for host in [
            "127.0.0.1",
            "127.1",
            "127.0.1",
            "0x7f.1",
            "0x7f000001",
            "0x7F.0x0.0x0.0x1",
            "017700000001",
            "0177.0.0.1",
            "2130706433",
            "127.0.0.1.",
            "%31%32%37.0.0.1",
            "127。0。0。1",
            "①②⑦.0.0.1",
            "１２７.０.０.１",
            "0",
            "0x0",
            "0xa9fea9fe",
            "2852039166",
            "10.1",
            "[::]",
            "[::1]",
            "[::127.0.0.1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::FFFF:7F00:0001]",
            "[0:0:0:0:0:ffff:7f00:1]",
            "[::ffff:0:7f00:1]",
            "[64:ff9b::7f00:1]",
            "[fd00:ec2::254]",
        ] {
            let url = Url::parse(&format!("http://{host}/")).unwrap();
            let address: IpAddr = match url.host() {
                Some(Host::Ipv4(address)) => address.into(),
                Some(Host::Ipv6(address)) => address.into(),
                other => panic!("{host} is read as {other:?}"),
            };
            assert!(!guard(&[]).permits(address), "{host} is {address}");
        }
    }

    #[test]
    fn allowed_ranges_are_permitted_and_nothing_beside_them() {
        let guard = guard(&["127.0.0.1/32", "10.1.0.0/16", "fd00:1::/32", "::1/128"]);
        for (address, is_permitted) in [
            ("127.0.0.1", true),
            ("127.0.0.0", false),
            ("127.0.0.2", false),
            ("10.0.255.255", false),
            ("10.1.0.0", true),
            ("10.1.255.255", true),
            ("10.2.0.0", false),
            ("fd00:0:ffff:ffff:ffff:ffff:ffff:ffff", false),
            ("fd00:1::", true),
            ("fd00:1:ffff:ffff:ffff:ffff:ffff:ffff", true),
            ("fd00:2::", false),
            ("::1", true),
            ("::", false),
            ("::2", false),
            ("::ffff:127.0.0.1", true),
            ("::ffff:127.0.0.2", false),
            ("::ffff:10.1.2.3", true),
            ("::ffff:10.2.2.3", false),
            ("::ffff:8.8.8.8", false),
            // Only the mapped form is an IPv4 address to the system.
            ("::127.0.0.1", false),
            ("::ffff:0:127.0.0.1", false),
            ("64:ff9b::127.0.0.1", false),
            ("2002:7f00:1::", false),
            ("8.8.8.8", true),
            ("2606:4700::1", true),
        ] {
            assert_eq!(
                guard.permits(address.parse().unwrap()),
                is_permitted,
                "{address}"
            );
        }
    }

    #[test]
    fn a_mapped_address_can_be_allowed_as_it_is_written() {
        let guard = guard(&["::ffff:10.0.0.0/104"]);
        assert!(guard.permits("::ffff:10.0.0.1".parse().unwrap()));
        assert!(!guard.permits("::ffff:11.0.0.1".parse().unwrap()));
        assert!(!guard.permits("10.0.0.1".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn every_address_in_a_refused_block_is_refused(
            (block, _, _) in prop::sample::select(&BLOCKS[..]),
            noise in any::<u128>(),
        ) {
            let range: IpNet = block.parse().unwrap();
            let address: IpAddr = match range {
                IpNet::V4(range) => {
                    let host = range.hostmask().to_bits() & (noise >> 96) as u32;
                    Ipv4Addr::from_bits(range.network().to_bits() | host).into()
                }
                IpNet::V6(range) => {
                    let host = range.hostmask().to_bits() & noise;
                    Ipv6Addr::from_bits(range.network().to_bits() | host).into()
                }
            };
            prop_assert!(range.contains(&address));
            prop_assert!(!guard(&[]).permits(address), "{}", address);
        }

        #[test]
        fn an_address_that_stands_for_an_ipv4_address_is_refused(bits in any::<u32>()) {
            let inside = Ipv4Addr::from_bits(bits);
            let [high, low] = [(bits >> 16) as u16, (bits & 0xffff) as u16];
            for address in [
                inside.to_ipv6_mapped(),
                inside.to_ipv6_compatible(),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, high, low, 0, 0, 0, 1),
            ] {
                prop_assert!(!guard(&[]).permits(address.into()), "{}", address);
            }
        }
    }
}
