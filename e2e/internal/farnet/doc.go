// Package farnet runs processes of one machine as if they were far apart. Each host is a network namespace, and a switch in this process
// carries IP packets between them after a delay, and loses some. It needs Linux, /dev/net/tun, nsenter, and the right to make network
// namespaces, as root or in a user namespace. It does not need netem, which not every kernel has.
package farnet
