// Package freedtest makes messages that show by themselves that their memory was changed.
package freedtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
)

// least is the size of the smallest message that has a checksum.
const least = 8

// Fill repeats p, faster than a loop under the race detector.
func Fill(b, p []byte) {
	for n := copy(b, p); n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// Seal returns a message of n bytes with random contents and their checksum.
func Seal(n int) []byte {
	b := make([]byte, n)
	SealIn(b)
	return b
}

// SealIn is Seal in the memory b.
func SealIn(b []byte) {
	n := len(b)
	if n < least {
		Fill(b, []byte{byte('a' + n)})
		return
	}
	var part [31]byte // no divisor of any buffer's size
	for i := range part {
		part[i] = byte(rand.Uint32())
	}
	Fill(b[:n-4], part[:])
	binary.LittleEndian.PutUint32(b[n-4:], crc32.ChecksumIEEE(b[:n-4]))
}

// Intact returns an error if a message that Seal made was changed.
func Intact(b []byte) error {
	n := len(b)
	if n < least {
		if bytes.Count(b, []byte{byte('a' + n)}) != n {
			return fmt.Errorf("a message of %d bytes is % x", n, b)
		}
		return nil
	}
	if sum := crc32.ChecksumIEEE(b[:n-4]); sum != binary.LittleEndian.Uint32(b[n-4:]) {
		return fmt.Errorf("a message of %d bytes begins with % x, ends with % x, and has the sum %08x", n, b[:8], b[n-8:], sum)
	}
	return nil
}
