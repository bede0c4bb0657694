// Package samehost moves bytes between two processes of one machine with a single copy: the receiver reads them
// out of the sender's memory (Linux, process_vm_readv). Compared with TCP over loopback, it takes the same
// processor time for 64 KiB, two thirds for 256 KiB, and half for 16 MiB.
//
// # Protocol
//
// The processes have a connection already, and use it to agree.
//
//  1. The sender makes an Advert for the two of them and sends its Bytes. The receiver answers with its Self. A process
//     that cannot make one sends none.
//  2. The sender passes the receiver's Self to the Advert's Allow, and tells the receiver when that is done.
//  3. The receiver calls Attach. Its error says why the memory cannot be read; the bytes then go over the
//     connection, as between two machines.
//  4. For each range of bytes, the sender calls Lend and sends the ticket and the length. The receiver calls Memory.Read
//     and acknowledges; then the sender calls Return. If a Read fails while the connection lives, the receiver asks for
//     these bytes, and for all that follow, over the connection. A range that cannot be lent goes over it as well.
//  5. The Advert is closed when the connection has ended.
//
// The sender neither changes nor frees the bytes until they are acknowledged or the connection has ended.
// Nothing tells it that it is being read: a receiver whose connection ended during a Read discards the bytes.
// They lie in memory that does not move, as Go's heap does not and its stacks do. The receiver checks an
// announced length before it takes memory for it.
//
// # Whose memory is read
//
// Adverts and tickets come from a peer. It may be malicious, and have this process read what the peer itself cannot,
// being on another machine or another user's. What it can reach is bounded:
//
//   - A process does not read itself: Attach refuses its own pid and those of its threads.
//   - It reads a process of the same user only, even if it is privileged and could read others.
//   - It reads a process only if that one offered its memory to it. An Advert has a record in its process's memory. The
//     record begins with a proof of its own address, the pid, a random nonce, and the parties: who lends to whom. A peer
//     that presents an Advert which another process made, for the peer or for somebody else, names other parties than
//     the proof does.
//   - It believes no forged record. A peer could send a process data that look like a record, and guess their
//     address. Each record therefore has a mapping of its own, with a name that Attach looks for.
//   - It reads only what is lent. The record has a table of the ranges that are lent at the moment. A ticket names a slot
//     of the table and an address, and a Read fails unless that slot holds that address and at least the length of the
//     Read.
//
// Each Read gets the slot and the proof in the same system call as the last of its bytes, after them. The bytes
// are therefore those of the process that made the Advert, not of one that got its pid later, and were lent
// when they were read.
//
// # Permission
//
// The kernel lets a process read another process of its user that has no more privileges than itself. If Yama
// restricts this to descendants (kernel.yama.ptrace_scope=1, as on Ubuntu), Allow makes an exception for the pid that the
// reader names. Yama keeps one exception for each process, so a second reader makes it "any process of this
// user", which kernels without Yama always allow. The exception ends with the Adverts. With the scopes 2 and 3,
// the memory cannot be read. A container's sandbox may forbid the call (Docker's older ones do;
// --cap-add=SYS_PTRACE allows it), and containers have to share a PID namespace.
//
// What the kernel permits, a process of the same user can do without this package: nothing here protects from it.
package samehost
