// Package rights defines what a session may use: ops, devices, containers and, through its ops, files. This is the only place where that is
// decided.
//
// A Scope is what one rule of a policy grants to an identity. It accompanies a session to all tasks. It is checked where something is
// reached: where a kernel is made (package kernels), where a container's name or a handle is resolved (package containers), and where a
// file is opened (kernels/files). The origin of a graph does not matter: the kernels of a function, of a dataset's graph and of a gradient
// are made in the same place as those of a client's nodes.
package rights
