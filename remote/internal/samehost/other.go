//go:build !linux

package samehost

import (
	"runtime"

	"github.com/troupe-run/troupe/graph/status"
)

// Advert offers ranges of this process's memory to one peer.
type Advert struct{}

// NewAdvert fails with UNIMPLEMENTED on this system.
func NewAdvert(string) (*Advert, error) { return nil, unsupported() }

// Self fails with UNIMPLEMENTED on this system.
func Self() ([]byte, error) { return nil, unsupported() }

// Bytes returns what the peer passes to Attach.
func (*Advert) Bytes() []byte { return nil }

// Lend lends nothing.
func (*Advert) Lend([]byte) (ticket uint64, ok bool) { return 0, false }

// Return ends a Lend.
func (*Advert) Return(uint64) {}

// Allow permits another process to read this one.
func (*Advert) Allow([]byte) error { return unsupported() }

// Close ends the offer.
func (*Advert) Close() error { return nil }

// Memory is the memory of another process of this machine.
type Memory struct{}

// Attach fails with UNIMPLEMENTED on this system.
func Attach([]byte, string) (*Memory, error) { return nil, unsupported() }

// Read fills dst with what the other process lent.
func (*Memory) Read([]byte, uint64) error { return unsupported() }

func unsupported() error {
	return status.Unimplementedf("Troupe cannot read another process's memory on %s", runtime.GOOS)
}
