"""A real single-node Kubernetes without Docker, for development and tests.

`up` starts etcd, the control plane, containerd, a kubelet, kube-proxy and CoreDNS as plain processes; `build` makes the
project's images with buildah; `down` removes everything. Invariant: every part of the cluster is identified by the
state directory or by a fixed name, so that the remains of a killed cluster are removed and other programs' files are
not changed. The tests and the demo need a real Kubernetes (Pod Security, probes, leases, disruption) on machines
without a container engine and without access to an image registry.
"""
