package samehost

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/graph/status"
)

// Advert offers ranges of this process's memory to one peer. All methods may be called concurrently.
type Advert struct {
	claim claim

	mu      sync.Mutex
	record  *record // nil once the Advert is closed
	mapping []byte  // contains the record
	free    []uint16
}

// adverts are the open Adverts. The value is the pid of the reader that was allowed, or nobody.
var adverts = struct {
	sync.Mutex
	readers map[*Advert]int
}{readers: map[*Advert]int{}}

// NewAdvert makes an offer that lasts until Close. parties describes the lender and the reader, in words that only these two
// processes pass to NewAdvert and Attach. Thus no other process can present the Advert as its own, or accept it as made for
// itself. NewAdvert fails with UNIMPLEMENTED on systems other than Linux, and with UNAVAILABLE if the system lacks what it
// needs.
func NewAdvert(parties string) (*Advert, error) {
	here, err := whereabouts()
	if err != nil {
		return nil, err
	}
	r, mapping, err := newRecord()
	if err != nil {
		return nil, status.Errorf(status.Unavailable, unclear, err)
	}
	a := &Advert{claim: claim{place: here, pid: uint32(os.Getpid())}, record: r, mapping: mapping, free: make([]uint16, slots)}
	for i := range a.free {
		a.free[i] = uint16(slots - 1 - i) // the first slots, which are next to the proof, are used first
	}
	a.claim.address = uint64(uintptr(unsafe.Pointer(r)))
	_, _ = rand.Read(a.claim.nonce[:]) // never fails
	r.proof = a.claim.proof(parties)
	adverts.Lock()
	defer adverts.Unlock()
	adverts.readers[a] = nobody
	return a, nil
}

// Self returns the identity of this process for the process that it will read, which passes it to Allow. It fails as NewAdvert
// does.
func Self() ([]byte, error) {
	here, err := whereabouts()
	if err != nil {
		return nil, err
	}
	c := claim{place: here, pid: uint32(os.Getpid())}
	return c.encode(), nil
}

// Bytes returns what the peer passes to Attach, less than 100 bytes. The caller may keep it.
func (a *Advert) Bytes() []byte { return a.claim.encode() }

// Lend permits the peer to read data with the ticket, until Return or Close. The caller must keep data alive and unchanged
// until then, and it must not be on a stack. ok is false if data cannot be lent: it is empty, all slots are in use, its
// address does not fit into a ticket, or the Advert is closed.
func (a *Advert) Lend(data []byte) (ticket uint64, ok bool) {
	address := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.record == nil || len(data) == 0 || len(a.free) == 0 || address>>addressBits != 0 {
		return 0, false
	}
	n := a.free[len(a.free)-1]
	a.free = a.free[:len(a.free)-1]
	s := &a.record.slots[n]
	s.size.Store(uint64(len(data)))
	s.address.Store(address)
	return uint64(n)<<addressBits | address, true
}

// Return ends a Lend. It has no effect for a ticket that was returned before, or of a closed Advert.
func (a *Advert) Return(ticket uint64) {
	n, address := split(ticket)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.record == nil || n >= slots || address == 0 || a.record.slots[n].address.Load() != address {
		return
	}
	a.record.slots[n].address.Store(0)
	a.record.slots[n].size.Store(0)
	a.free = append(a.free, uint16(n))
}

// split returns the number of a ticket's slot and its address.
func split(ticket uint64) (slot, address uint64) {
	return ticket >> addressBits, ticket & (1<<addressBits - 1)
}

// Allow permits another process to read this one, where the kernel requires that (see the package comment). reader is the
// other process's Self. Allow fails with FAILED_PRECONDITION for a process of another machine or after Close, and with
// PERMISSION_DENIED for one of another user.
func (a *Advert) Allow(reader []byte) error {
	c, err := parse(reader)
	if err != nil {
		return err
	}
	if err := c.in(a.claim.place); err != nil {
		return err
	}
	if err := sameUser(int(c.pid)); err != nil {
		return err
	}
	adverts.Lock()
	defer adverts.Unlock()
	if _, live := adverts.readers[a]; !live {
		return status.Errorf(status.FailedPrecondition, "the offer of this process's memory is closed")
	}
	adverts.readers[a] = int(c.pid)
	return setPtracer(exception(adverts.readers))
}

// Close ends the offer: every later Read fails. It may be called more than once.
func (a *Advert) Close() error { return errors.Join(a.shred(), a.disallow()) }

// shred invalidates and unmaps the record.
func (a *Advert) shred() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.record == nil {
		return nil
	}
	a.record.proof = proof{} // a Read in progress may hold the page after it was unmapped
	a.record = nil
	return unix.Munmap(a.mapping)
}

// disallow undoes Allow.
func (a *Advert) disallow() error {
	adverts.Lock()
	defer adverts.Unlock()
	reader, live := adverts.readers[a]
	delete(adverts.readers, a)
	if !live || reader == nobody {
		return nil
	}
	return setPtracer(exception(adverts.readers))
}

// unclear is the error text of a process that cannot offer its memory.
const unclear = "the memory of this process cannot be offered: %v"

// whereabouts returns the place of this process, which never changes.
var whereabouts = sync.OnceValues(func() (here place, err error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return here, status.Errorf(status.Unavailable, unclear, err)
	}
	digits := bytes.ReplaceAll(bytes.TrimSpace(id), []byte("-"), nil)
	if len(digits) != hex.EncodedLen(len(here.boot)) {
		return here, status.Errorf(status.Unavailable, unclear, "boot_id is "+strconv.Quote(string(id)))
	}
	if _, err := hex.Decode(here.boot[:], digits); err != nil {
		return here, status.Errorf(status.Unavailable, unclear, err)
	}
	// The owner of a pid is looked up in /proc, which may have been mounted for another
	// namespace than ours.
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return here, status.Errorf(status.Unavailable, unclear, err)
	}
	if self != strconv.Itoa(os.Getpid()) {
		return here, status.Errorf(status.Unavailable, unclear, "/proc is that of another PID namespace")
	}
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return here, status.Errorf(status.Unavailable, unclear, err)
	}
	here.namespace = info.Sys().(*syscall.Stat_t).Ino
	return here, nil
})

// foreign refuses the pid of this process and those of its threads, whose ids are pids to the kernel.
func foreign(pid uint32) error {
	if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(int(pid))); err == nil {
		return status.Errorf(status.FailedPrecondition, "the advert of the peer's memory names process %d, which is this process's own", pid)
	}
	return nil
}

// sameUser refuses processes of other users: a privileged reader must not read them on behalf of a peer.
func sameUser(pid int) error {
	info, err := os.Stat("/proc/" + strconv.Itoa(pid))
	if os.IsNotExist(err) {
		return status.Errorf(status.Unavailable, "there is no process %d (any more)", pid)
	}
	if err != nil {
		return status.Errorf(status.PermissionDenied, "the memory of process %d cannot be read: %v", pid, err)
	}
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != os.Geteuid() {
		return status.Errorf(status.PermissionDenied,
			"the memory of process %d cannot be read: it is one of user %d, this one of user %d", pid, uid, os.Geteuid())
	}
	return nil
}

// yamaScope returns kernel.yama.ptrace_scope, or 0 if the kernel has no Yama.
func yamaScope() int {
	b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err != nil {
		return 0
	}
	scope, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return scope
}
