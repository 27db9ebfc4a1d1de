"""A real single-node Kubernetes without Docker, for development and tests.

What: `up` starts etcd, the control plane, containerd, a kubelet, kube-proxy and CoreDNS as plain processes; `build`
makes the project's images with buildah; `down` takes everything away again. Invariant: everything that belongs to the
cluster can be recognised by the state directory or by a name of ours, never by a guess, so that what a killed cluster
left behind is removed and what belongs to others is not touched. Why: the tests and the demo need Kubernetes as it is
(Pod Security, probes, leases, disruption), on machines that have no container engine and reach no image registry.
"""
