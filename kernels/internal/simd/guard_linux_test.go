package simd

import (
	"math/rand/v2"
	"os"
	"syscall"
	"unsafe"
)

// arena hands out slices that end, or by chance begin, exactly at a guard page: a kernel that reads or writes outside its slices crashes
// the test. With TROUPE_GUARD_PAGES=off, the slices are plain ones: QEMU 7.2 faults on masked loads whose masked part is beyond the page.
type arena struct {
	r        *rand.Rand
	mappings [][]byte
}

func (a *arena) floats(n int) []float32 {
	if os.Getenv("TROUPE_GUARD_PAGES") == "off" {
		return make([]float32, n)
	}
	page := syscall.Getpagesize()
	size := max(page, (4*n+page-1)/page*page)
	mem, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	a.mappings = append(a.mappings, mem)
	for _, edge := range [][]byte{mem[:page], mem[page+size:]} {
		if err := syscall.Mprotect(edge, syscall.PROT_NONE); err != nil {
			panic(err)
		}
	}
	inner := mem[page : page+size]
	if a.r.IntN(2) == 0 {
		inner = inner[size-4*n:]
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(inner))), n)
}

// release unmaps all slices that were handed out.
func (a *arena) release() {
	for _, mem := range a.mappings {
		if err := syscall.Munmap(mem); err != nil {
			panic(err)
		}
	}
	a.mappings = a.mappings[:0]
}
