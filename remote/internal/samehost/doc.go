// Package samehost moves bytes between two processes of one machine with a single copy: the
// receiver reads them out of the sender's memory (Linux, process_vm_readv). Beside TCP over loopback
// it takes as much processor time for 64 KiB, two thirds for 256 KiB, and half for 16 MiB.
//
// # Protocol
//
// The processes have a connection already, and agree over it.
//
//  1. Each makes an Advert and sends its Bytes. A process that cannot make one sends none.
//  2. Each passes the other's bytes to its own Advert's Allow, and tells the other when that is done.
//  3. Who was told so calls Attach. Its error says why there is no way from memory to memory; the
//     bytes then go over the connection, as between two machines.
//  4. A sender announces an address and a length; the receiver calls Memory.Read and acknowledges. A
//     Read that fails while the connection lives is answered with the wish to get the bytes over
//     the connection, and so are all that follow.
//  5. The Advert is closed when the connection has ended.
//
// The sender neither changes nor frees the bytes until they are acknowledged or the connection has
// ended. Nothing tells it that it is being read: a receiver whose connection ended during a Read
// throws the bytes away. They lie in memory that stays where it is, as Go's heap does and its
// stacks do not. The receiver checks an announced length before it takes memory for it.
//
// # Whose memory is read
//
// Addresses come from a peer that was admitted, and what it reaches with them is bounded. An Advert
// has a record in its process's memory, with the record's own address, the pid and a random nonce.
// Attach reads it, and each Read reads it together with the last of its bytes: so they are of the
// process that made the Advert, not of one that got its pid later or never made one. Attach and Allow
// also refuse a process of another user, even where a privileged reader could read it. A peer can
// thus name its own memory, and at most that of a process of the reader's user that gave it an
// Advert too: another member of the cluster. Members trust each other with tensors in any case.
//
// # Permission
//
// The kernel lets a process read another one of its user that has no more privileges than itself.
// Where Yama restricts this to descendants (kernel.yama.ptrace_scope=1, as on Ubuntu), Allow makes an
// exception for the reader's pid. Yama keeps one exception for each process, so a second reader makes
// it "any process of this user", which kernels without Yama allow always. It ends with the Adverts.
// The scopes 2 and 3 leave no way. A container's sandbox may forbid the call (Docker's older ones do;
// --cap-add=SYS_PTRACE allows it), and containers have to share a PID namespace.
package samehost
