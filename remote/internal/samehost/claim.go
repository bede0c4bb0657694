package samehost

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/troupe-run/troupe/graph/status"
)

const (
	version   = 2
	nonceSize = 32
	// claimSize is the length in bytes of an encoded claim: the version, and the fields in order.
	claimSize = 1 + 16 + 8 + 4 + 8 + nonceSize
	// proofMark is the beginning of each proof.
	proofMark = "troupe samehost\x02"
	proofSize = len(proofMark) + 8 + 8 + sha256.Size
)

// place is where a process runs. All processes of one place see the same pids.
type place struct {
	boot      [16]byte // of the kernel; differs each time that it starts
	namespace uint64   // inode of the PID namespace
}

// claim is a process's description of itself.
type claim struct {
	place
	pid     uint32
	address uint64 // of the Advert's record; 0 from Self
	nonce   [nonceSize]byte
}

// proof is the beginning of a record. It identifies the record's own address and process, and the parties for which it was made.
type proof [proofSize]byte

// proof returns the proof of an Advert for the parties.
func (c *claim) proof(parties string) proof {
	var p proof
	b := append(p[:0], proofMark...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.pid))
	b = binary.BigEndian.AppendUint64(b, c.address)
	sum := sha256.Sum256(append(c.nonce[:], parties...))
	copy(p[len(b):], sum[:])
	return p
}

// encode returns the encoded claim: big-endian, claimSize bytes.
func (c *claim) encode() []byte {
	b := append(make([]byte, 0, claimSize), version)
	b = append(b, c.boot[:]...)
	b = binary.BigEndian.AppendUint64(b, c.namespace)
	b = binary.BigEndian.AppendUint32(b, c.pid)
	b = binary.BigEndian.AppendUint64(b, c.address)
	return append(b, c.nonce[:]...)
}

// parse decodes a peer's claim. It fails with UNIMPLEMENTED for another version and
// INVALID_ARGUMENT for anything that is not a claim.
func parse(b []byte) (*claim, error) {
	switch {
	case len(b) == 0:
		return nil, status.InvalidArgumentf("the advert of the peer's memory is empty")
	case b[0] != version:
		return nil, status.Unimplementedf("the advert of the peer's memory has version %d, this process knows version %d", b[0], version)
	case len(b) != claimSize:
		return nil, status.InvalidArgumentf("the advert of the peer's memory has %d bytes, not %d", len(b), claimSize)
	}
	c := &claim{}
	b = b[1:]
	b = b[copy(c.boot[:], b):]
	c.namespace, b = binary.BigEndian.Uint64(b), b[8:]
	c.pid, b = binary.BigEndian.Uint32(b), b[4:]
	c.address, b = binary.BigEndian.Uint64(b), b[8:]
	copy(c.nonce[:], b)
	// A pid of 0 or below means "this process" or a group to some system calls.
	if int32(c.pid) <= 0 {
		return nil, status.InvalidArgumentf("the advert of the peer's memory names process %d", int32(c.pid))
	}
	return c, nil
}

// in refuses a claim from another place with FAILED_PRECONDITION.
func (c *claim) in(here place) error {
	switch {
	case c.boot != here.boot:
		return status.Errorf(status.FailedPrecondition, "the peer's memory cannot be read: it runs on another machine")
	case c.namespace != here.namespace:
		return status.Errorf(status.FailedPrecondition,
			"the peer's memory cannot be read: it runs on this machine in another PID namespace (a container of its own?)")
	}
	return nil
}
