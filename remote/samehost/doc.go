// Package samehost moves bytes between two processes of one machine with a single copy: the
// receiver reads them out of the sender's memory (Linux, process_vm_readv).
//
// # Protocol
//
// The processes have a connection already, and agree over it.
//
//  1. Each makes an Advert and sends its Bytes. A process that cannot make one sends none, and its
//     peer goes on without this package.
//  2. Each passes the other's bytes to its own Advert's Allow, and tells the other when that is done.
//  3. Whoever was told that it is allowed calls Attach. An error of Attach says why there is no way
//     from memory to memory; the bytes then go over the connection, as between two machines.
//  4. A sender announces an address and a length, and the receiver calls Memory.Read and
//     acknowledges. A Read that fails with another code than UNAVAILABLE is answered with the wish to
//     get the bytes over the connection.
//  5. The Advert is closed when the connection has ended.
//
// The sender must neither change nor free the announced bytes until they are acknowledged or the
// connection has ended, and where it ended the receiver must not use what a Read that was under way
// then gives: nothing tells the sender that its memory is being read. The memory has to be
// of the kind that stays where it is, as Go's heap does and its stacks do not. What was written
// before the announcement was sent is seen by a Read after its arrival.
//
// # Whose memory is read
//
// Addresses come from a peer, so what it can reach with them is bounded. An Advert has a record in its
// process's memory that holds the record's own address, the pid and a random nonce. Attach reads it, and each Read
// reads it together with the last of its bytes: they came from the process of the Advert, not from one
// that got its pid later, nor from one that never made the Advert. Attach and
// Allow also refuse a process of another user, even where the kernel would let a privileged process
// read it. So a peer makes its reader read only processes of the reader's own user that made an Advert
// and gave it to the peer: its own, and those of other members of the cluster, which trust it anyway.
//
// # Permission
//
// The kernel lets a process read another one of its user, unless that one runs with more privileges.
// Some distributions restrict this to a process's descendants (Yama, kernel.yama.ptrace_scope=1).
// There, Allow lets the reader in, and only it while it is alone. Yama keeps one exception for each
// process, and so a second reader makes it "any process of this user", which is what kernels without
// Yama have always. The last Close takes the exception back. ptrace_scope=2 and 3 leave no way.
// Docker's seccomp profile refused the call up to Docker 19.03, and processes in
// containers can read each other only where they share a PID namespace.
package samehost
