package tensor

import (
	"bytes"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Large buffers request huge pages where the system grants them only on request. Their first use then costs less than half, and scattered
// reads and readers in other processes are faster. The request stays with the addresses, so that a small object placed there later by the
// Go runtime would take a whole huge page. It is therefore withdrawn when the buffer is left to the garbage collector.
const (
	hugeFrom = 4 << 20 // least size of a buffer in bytes: it contains at least one whole huge page
	hugePage = 2 << 20 // in bytes, on amd64 and on arm64 with pages of 4 KiB
)

// hugeOnRequest reports whether the system uses small pages by default and huge ones on request.
var hugeOnRequest = sync.OnceValue(func() bool {
	modes, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && bytes.Contains(modes, []byte("[madvise]"))
})

// askHuge requests huge pages for the whole huge pages within a buffer.
func askHuge(b []byte) { adviseHuge(b, unix.MADV_HUGEPAGE) }

// unaskHuge withdraws askHuge.
func unaskHuge(b []byte) { adviseHuge(b, unix.MADV_NOHUGEPAGE) }

func adviseHuge(b []byte, advice int) {
	if len(b) < hugeFrom || !hugeOnRequest() {
		return
	}
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (hugePage - 1))
	whole := (len(b) - skip) &^ (hugePage - 1)
	// If the system refuses, the memory has small pages, which is slower but works.
	_ = unix.Madvise(b[skip:skip+whole], advice)
}
