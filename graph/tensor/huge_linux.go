package tensor

import (
	"bytes"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Large buffers ask for huge pages where the system gives them to those who ask. Their first use
// then costs less than half, and scattered reads and readers in other processes are faster. The
// request stays with the addresses, and a small object that the Go runtime puts there later would
// take a huge page: so it is withdrawn when the garbage collector gets the buffer.
const (
	hugeFrom = 4 << 20 // bytes of a buffer: it has one whole huge page at least
	hugePage = 2 << 20 // bytes: of amd64, and of arm64 with pages of 4 KiB
)

// hugeOnRequest tells whether the system's default is small pages, and huge ones are not forbidden.
var hugeOnRequest = sync.OnceValue(func() bool {
	modes, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && bytes.Contains(modes, []byte("[madvise]"))
})

// askHuge asks for huge pages for what a buffer has of whole ones.
func askHuge(b []byte) { adviseHuge(b, unix.MADV_HUGEPAGE) }

// unaskHuge withdraws askHuge.
func unaskHuge(b []byte) { adviseHuge(b, unix.MADV_NOHUGEPAGE) }

func adviseHuge(b []byte, advice int) {
	if len(b) < hugeFrom || !hugeOnRequest() {
		return
	}
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (hugePage - 1))
	whole := (len(b) - skip) &^ (hugePage - 1)
	// A system that refuses serves the memory in small pages, as well as it can.
	_ = unix.Madvise(b[skip:skip+whole], advice)
}
