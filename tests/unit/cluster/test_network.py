"""Who else uses our ports and addresses."""

from local_cluster.layout import Network
from local_cluster.network import Listener, obstacles, overlapping_routes, parse_listeners

SS = """\
udp   UNCONN 0 0 0.0.0.0:53 0.0.0.0:* users:(("dnsmasq",pid=812,fd=4))
tcp   LISTEN 0 4096 127.0.0.1:2379 0.0.0.0:* users:(("etcd",pid=99,fd=3))
tcp   LISTEN 0 4096 192.0.2.7%eth0:6443 0.0.0.0:* users:(("kube-apiserver",pid=98,fd=3))
tcp   LISTEN 0 4096 [::]:10250 [::]:*
tcp   LISTEN 0 128 *:22 *:* users:(("sshd",pid=1,fd=3))
"""


def test_listeners_on_all_addresses_and_our_ports_are_obstacles() -> None:
    listeners = parse_listeners(SS)
    assert listeners[0] == Listener("0.0.0.0", 53, "dnsmasq (pid 812)")
    assert listeners[2].address == "192.0.2.7"
    assert listeners[3] == Listener("::", 10250, "unknown")
    assert obstacles(listeners, Network()) == [
        "port 10250 is in use by unknown on ::",
        "port 53 is in use by dnsmasq (pid 812) on 0.0.0.0",
    ]


def test_a_network_of_others_that_overlaps_is_found() -> None:
    routes = """\
default via 192.0.2.1 dev eth0
10.201.0.0/16 dev tun0 scope link
10.8.0.0/24 dev tun1 scope link
10.201.1.0/24 dev ecnode0 scope link
10.201.0.7 dev veth1234 scope host
local 127.0.0.1 dev lo table local
"""
    assert overlapping_routes(routes, Network()) == ["10.201.0.0/16 dev tun0 scope link"]
