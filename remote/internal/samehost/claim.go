package samehost

import (
	"encoding/binary"

	"github.com/troupe-run/troupe/graph/status"
)

const (
	version   = 1
	nonceSize = 32
	// claimSize is the length in bytes of a claim's form: the version, and the fields in their order.
	claimSize = 1 + 16 + 8 + 4 + 8 + nonceSize
	// proofMark begins each proof, so that nothing else in a memory looks like one.
	proofMark = "troupe samehost\x01"
	proofSize = len(proofMark) + 8 + 8 + nonceSize
)

// place is where a process runs: pids mean the same to all processes of one place.
type place struct {
	boot      [16]byte // of the kernel, another one each time that it starts
	namespace uint64   // inode of the PID namespace
}

// claim is what an Advert says of its process.
type claim struct {
	place
	pid     uint32
	address uint64 // of the proof
	nonce   [nonceSize]byte
}

// proof is what lies at a claim's address. It names its own address and process, so that no bytes
// that are in a process for another reason pass for it, such as those of its program.
type proof [proofSize]byte

func (c *claim) proof() proof {
	var p proof
	b := append(p[:0], proofMark...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.pid))
	b = binary.BigEndian.AppendUint64(b, c.address)
	copy(p[len(b):], c.nonce[:])
	return p
}

// encode gives the form that travels: big-endian, of claimSize bytes.
func (c *claim) encode() []byte {
	b := append(make([]byte, 0, claimSize), version)
	b = append(b, c.boot[:]...)
	b = binary.BigEndian.AppendUint64(b, c.namespace)
	b = binary.BigEndian.AppendUint32(b, c.pid)
	b = binary.BigEndian.AppendUint64(b, c.address)
	return append(b, c.nonce[:]...)
}

// parse reads what a peer sent. It fails with UNIMPLEMENTED for another version and
// INVALID_ARGUMENT for what is no claim.
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

// in refuses a claim from elsewhere with FAILED_PRECONDITION.
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
