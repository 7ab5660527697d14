//! Addresses of peers.

use std::net::{IpAddr, Ipv6Addr};

/// An IPv6 host owns its /64 and could come from each address of it.
const V6_PREFIX_BITS: u32 = 64;

/// The address by which a peer is counted: that of its network, where it could come from any address of one.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        // An IPv4 address inside an IPv6 one was made canonical above, so it counts whole.
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << (128 - V6_PREFIX_BITS))).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_ipv6_network_is_one_address() {
        let (a, b): (IpAddr, IpAddr) = ("2001:db8::1".parse().unwrap(), "2001:db8::ffff:2".parse().unwrap());
        assert_eq!(network(a), network(b));
        assert_ne!(network(a), network("2001:db8:0:1::1".parse().unwrap()));
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), IpAddr::from([10, 0, 0, 1]));
    }
}
