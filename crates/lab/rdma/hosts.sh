# Soft-RoCE hosts h1, h2, ... in the first network namespace, because Linux 6.1 has Soft-RoCE only there, each with a cable to a switch
# in a namespace of its own. Rules by outgoing interface send packets between two addresses of one kernel over the cables.

in_switch() { ip netns exec switch "$@"; }

# hosts COUNT: makes them, with rxe1, rxe2, ... on h1, h2, ...
hosts() {
    local count=$1 i j
    ip netns add switch
    in_switch ip link set lo up
    in_switch ip link add bridge type bridge
    in_switch ip link set bridge up
    # Local addresses are looked up after the rules below.
    ip rule add pref 100 lookup local
    ip rule del pref 0
    for i in all default; do echo 0 >/proc/sys/net/ipv4/conf/$i/rp_filter; done
    for ((i = 1; i <= count; i++)); do
        ip link add "h$i" type veth peer name "s$i"
        ip link set "s$i" netns switch
        # 4096 bytes of payload and all headers.
        ip link set "h$i" address "02:00:00:00:00:0$i" mtu 4200 up
        in_switch ip link set "s$i" mtu 4200 master bridge up
        ip addr add "10.9.0.$i/32" dev "h$i"
        ip route add 10.9.0.0/24 dev "h$i" table "10$i"
        ip rule add pref "1$i" oif "h$i" lookup "10$i"
        echo 0 >"/proc/sys/net/ipv4/conf/h$i/rp_filter"
        echo 1 >"/proc/sys/net/ipv4/conf/h$i/accept_local"
        # A packet on the cable is a packet of RoCE.
        ethtool -K "h$i" tso off gso off gro off tx off >/dev/null 2>&1
    done
    for ((i = 1; i <= count; i++)); do
        for ((j = 1; j <= count; j++)); do
            [[ $i == "$j" ]] || ip neigh replace "10.9.0.$j" lladdr "02:00:00:00:00:0$j" dev "h$i" nud permanent
        done
    done
    for ((i = 1; i <= count; i++)); do rdma link add "rxe$i" type rxe netdev "h$i"; done
}

# nic HOST MBIT: limits what a host sends to the rate of its NIC. A timer that is late by 6 ms, as in an emulator, loses nothing.
nic() { tc qdisc add dev "$1" root tbf rate "$2mbit" burst 18k limit 4000000; }

# queue PORT MBIT: limits a port of the switch, and marks ECN there (RED) from 30 to 90 kB of queue on. Timers may be late by 19 ms.
queue() {
    in_switch tc qdisc add dev "$1" root handle 1: htb default 1
    in_switch tc class add dev "$1" parent 1: classid 1:1 htb rate "$2mbit" ceil "$2mbit" burst 64k cburst 64k
    in_switch tc qdisc add dev "$1" parent 1:1 handle 10: red limit 2000000 min 30000 max 90000 avpkt 1500 burst 30 \
        probability 0.1 bandwidth "$2mbit" ecn
}

# marks PORT: packets that the queue of this port has marked.
marks() { in_switch tc -s qdisc show dev "$1" | awk '/marked/ { print $2 }'; }

# ip_counter NAME: a counter of the kernel's IP, such as InCEPkts.
ip_counter() {
    awk -v name="$1" '/^IpExt/ { if (!named) { split($0, names); named = 1 } else { split($0, values); for (i in names) if (names[i] == name) print values[i] } }' /proc/net/netstat
}
