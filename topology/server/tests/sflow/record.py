#!/usr/bin/env python3
"""Records what a real switch says by sFlow, as `open-vswitch.txt` has it: Open vSwitch with its datapath in user space.

By hand, as root: apt-get install openvswitch-switch ethtool; python3 record.py >open-vswitch.txt. The tests need the file alone.
Two hosts in network namespaces send UDP through a bridge. What the switch itself counts (ovs-vsctl) is read while nobody sends, so
that these numbers and the counters of the datagrams around them are the same moment's.
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

PORT = 6343
# Seconds without traffic, in which each interface is counted twice.
QUIET = 6
INTERFACES = ("Ethernet0", "Ethernet4")
SEND = """
import socket, sys, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + int(sys.argv[1])
while time.monotonic() < end:
    for _ in range(10):
        out.sendto(bytes(1400), ("10.0.0.2", 9))
    time.sleep(0.002)
"""


def run(line):
    return subprocess.run(line, shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def statistics():
    """What the switch says that its interfaces carried: name, index, speed, bytes received and sent."""
    keys = ("ifindex", "link_speed", "statistics:rx_bytes", "statistics:tx_bytes")
    for name in INTERFACES:
        print("interface", name, *(run(f"ovs-vsctl get interface {name} {key}") for key in keys))


def switch(hosts):
    """The programs of the switch, in the network namespace of this process, and its cables to those of the hosts."""
    folder = os.environ["OVS_RUNDIR"]
    run(f"ovsdb-tool create {folder}/conf.db /usr/share/openvswitch/vswitch.ovsschema")
    run(f"ovsdb-server {folder}/conf.db --remote=punix:{folder}/db.sock --pidfile --detach --log-file")
    run("ovs-vsctl --no-wait init")
    run("ovs-vswitchd --pidfile --detach --log-file")
    run("ovs-vsctl add-br leaf1 -- set bridge leaf1 datapath_type=netdev -- set open . other_config:stats-update-interval=1000")
    # IPv6 speaks on its own, and no moment would be quiet.
    quiet = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
    run(f"{quiet}; ip link set lo up; ip addr add 192.0.2.1/32 dev leaf1; ip link set leaf1 up")
    for number, (name, host) in enumerate(zip(INTERFACES, hosts), 1):
        inside = f"nsenter -t {host.pid} -n"
        run(f"{inside} {quiet}; ip link add {name} type veth peer name eth0 address 02:00:00:00:00:0{number} netns {host.pid}; ip link set {name} up")
        # Open vSwitch in user space does not compute checksums that the kernel left to a NIC.
        run(f"{inside} ip addr add 10.0.0.{number}/24 dev eth0; {inside} ip link set eth0 up; {inside} ethtool -K eth0 tx off")
        # The same for ARP, by which hosts ask again some seconds later.
        run(f"{inside} ip neigh add 10.0.0.{3 - number} lladdr 02:00:00:00:00:0{3 - number} nud permanent dev eth0")
        run(f"ovs-vsctl add-port leaf1 {name}")
    sflow = f"agent=leaf1 'target=\"127.0.0.1:{PORT}\"' header=64 sampling=8000 polling=2"
    run(f"ovs-vsctl -- --id=@s create sflow {sflow} -- set bridge leaf1 sflow=@s")


def listen(collector):
    """Prints datagrams as they come: milliseconds, and their bytes."""
    began = time.monotonic()
    while True:
        data = collector.recv(65535)
        print("datagram", int((time.monotonic() - began) * 1000), data.hex(), flush=True)


def main():
    hosts = [subprocess.Popen(["unshare", "--net", "sleep", "300"]) for _ in INTERFACES]
    collector = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    collector.bind(("127.0.0.1", PORT))
    time.sleep(1)
    try:
        switch(hosts)
        send = ["nsenter", "-t", str(hosts[0].pid), "-n", sys.executable, "-c", SEND]
        subprocess.run([*send, "1"], check=True)
        print("# sFlow of", run("ovs-vswitchd --version | head -1"), "as record.py beside this file recorded it: what the switch")
        print("# counts (interface NAME INDEX SPEED RX_BYTES TX_BYTES), and datagrams (MILLISECONDS BYTES) before and after.")
        threading.Thread(target=listen, args=(collector,), daemon=True).start()
        time.sleep(QUIET)
        statistics()
        subprocess.run([*send, "8"], check=True)
        time.sleep(QUIET)
        statistics()
    finally:
        for name in ("ovs-vswitchd", "ovsdb-server"):
            subprocess.run(f"kill $(cat $OVS_RUNDIR/{name}.pid)", shell=True, check=False)
        for host in hosts:
            host.kill()


if __name__ == "__main__":
    if "OVS_RUNDIR" in os.environ:
        main()
    else:
        with tempfile.TemporaryDirectory() as at:
            os.environ.update(OVS_RUNDIR=at, OVS_DBDIR=at, OVS_LOGDIR=at)
            sys.exit(subprocess.run(["unshare", "--net", sys.executable, os.path.abspath(__file__)], check=False).returncode)
