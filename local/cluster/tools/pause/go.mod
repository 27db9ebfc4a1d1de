module local-cluster-tools/pause

go 1.21
