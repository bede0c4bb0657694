// Package samehost moves bytes between two processes of one machine with a single copy: the receiver reads them
// out of the sender's memory (Linux, process_vm_readv). Compared with TCP over loopback, it takes the same
// processor time for 64 KiB, two thirds for 256 KiB, and half for 16 MiB.
//
// # Protocol
//
// The processes are already connected, and agree over that connection.
//
//  1. The sender makes an Advert for the two of them and sends its Bytes. The receiver answers with its Self. A process
//     that cannot make one sends none.
//  2. The sender passes the receiver's Self to the Advert's Allow, and tells the receiver when that is done.
//  3. The receiver calls Attach. Its error says why the memory cannot be read; the bytes are then sent over the
//     connection, as between two machines.
//  4. For each range of bytes, the sender calls Lend and sends the ticket and the length. The receiver calls Memory.Read
//     and acknowledges; then the sender calls Return. If a Read fails while the connection lives, the receiver requests
//     these bytes, and all later ones, over the connection. A range that cannot be lent is sent over it as well.
//  5. The Advert is closed when the connection has ended.
//
// The sender neither changes nor frees the bytes until they are acknowledged or the connection has ended.
// It cannot detect that it is being read: a receiver whose connection ended during a Read must discard the bytes.
// The bytes are in memory that does not move. Go's heap does not move, but its stacks do. The receiver checks an
// announced length before it allocates memory for it.
//
// # Whose memory is read
//
// Adverts and tickets come from a peer. A malicious peer may try to make this process read memory that the peer itself
// cannot read, because it runs on another machine or as another user. What it can reach is bounded:
//
//   - A process does not read itself: Attach refuses its own pid and those of its threads.
//   - It reads only processes of the same user, even if it is privileged and could read others.
//   - It reads a process only if that process offered its memory to it. An Advert has a record in its process's memory. The
//     record begins with a proof of its own address, the pid, a random nonce, and the parties: the lender and the reader.
//     If a peer presents an Advert that another process made, for the peer or for a third process, its parties differ
//     from those in the proof.
//   - It accepts no forged record. A peer could send a process data that looks like a record, and guess its
//     address. Each record therefore has its own mapping, with a name that Attach checks.
//   - It reads only what is lent. The record has a table of the ranges that are currently lent. A ticket names a slot
//     of the table and an address, and a Read fails unless that slot holds that address and at least the length of the
//     Read.
//
// Each Read reads the slot and the proof in the same system call as the last of its bytes, after them. The bytes
// are therefore those of the process that made the Advert, not of one that reused its pid, and were lent
// when they were read.
//
// # Permission
//
// The kernel permits a process to read another process of its user that has no more privileges than itself. If Yama
// restricts this to descendants (kernel.yama.ptrace_scope=1, as on Ubuntu), Allow makes an exception for the pid that the
// reader names. Yama keeps one exception per process, so a second reader widens it to "any process of this
// user", which kernels without Yama always allow. The exception ends with the Adverts. With scopes 2 and 3,
// the memory cannot be read. A container's sandbox may forbid the call (older versions of Docker do;
// --cap-add=SYS_PTRACE allows it), and containers must share a PID namespace.
//
// The package does not protect from processes of the same user: they can do what the kernel permits without it.
package samehost
