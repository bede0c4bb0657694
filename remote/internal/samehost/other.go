//go:build !linux

package samehost

import (
	"runtime"

	"github.com/troupe-run/troupe/graph/status"
)

// Advert offers this process's memory to one peer.
type Advert struct{}

// NewAdvert fails with UNIMPLEMENTED on this system.
func NewAdvert() (*Advert, error) { return nil, unsupported() }

// Bytes is what the peer passes to Attach and Allow.
func (*Advert) Bytes() []byte { return nil }

// Allow lets the process of another advert read this one.
func (*Advert) Allow([]byte) error { return unsupported() }

// Close ends the offer.
func (*Advert) Close() error { return nil }

// Memory is the memory of another process of this machine.
type Memory struct{}

// Attach fails with UNIMPLEMENTED on this system.
func Attach([]byte) (*Memory, error) { return nil, unsupported() }

// Read fills dst from an address of the other process.
func (*Memory) Read([]byte, uint64) error { return unsupported() }

func unsupported() error {
	return status.Unimplementedf("Troupe cannot read another process's memory on %s", runtime.GOOS)
}
