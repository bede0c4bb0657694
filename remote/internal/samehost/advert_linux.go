package samehost

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
)

// Advert offers this process's memory to one peer. All methods may be called concurrently.
type Advert struct {
	claim claim
	proof *proof
}

// adverts are those that are not closed: here their proofs stay alive and off every stack. The value
// is the pid of the reader that was let in, or nobody.
var adverts = struct {
	sync.Mutex
	readers map[*Advert]int
}{readers: map[*Advert]int{}}

// NewAdvert makes an offer for one peer, which lasts until Close. It fails with UNIMPLEMENTED on
// systems other than Linux, and with UNAVAILABLE where /proc does not tell what it should.
func NewAdvert() (*Advert, error) {
	here, err := whereabouts()
	if err != nil {
		return nil, err
	}
	a := &Advert{claim: claim{place: here, pid: uint32(os.Getpid())}, proof: new(proof)}
	a.claim.address = uint64(uintptr(unsafe.Pointer(a.proof)))
	_, _ = rand.Read(a.claim.nonce[:]) // never fails
	*a.proof = a.claim.proof()
	adverts.Lock()
	defer adverts.Unlock()
	adverts.readers[a] = nobody
	return a, nil
}

// Bytes is what the peer passes to Attach and Allow, less than 100 bytes. The caller may keep it.
func (a *Advert) Bytes() []byte { return a.claim.encode() }

// Allow lets the process of another advert read this one, where the kernel asks for that (see the
// package comment). It fails with FAILED_PRECONDITION for one of another machine or after Close, and
// with PERMISSION_DENIED for one of another user.
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

// Close ends the offer: every Read that follows fails. It may be called more than once.
func (a *Advert) Close() error {
	adverts.Lock()
	defer adverts.Unlock()
	reader, live := adverts.readers[a]
	if !live {
		return nil
	}
	delete(adverts.readers, a)
	*a.proof = proof{}
	if reader == nobody {
		return nil
	}
	return setPtracer(exception(adverts.readers))
}

// whereabouts is the place of this process, which stays the same for its life.
var whereabouts = sync.OnceValues(func() (here place, err error) {
	const unclear = "the memory of this process cannot be offered: %v"
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
	// Whose process a pid is gets looked up in /proc, which may have been mounted for another
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

// sameUser refuses processes of other users: a privileged reader must not lend its eyes to a peer.
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

// yamaScope is kernel.yama.ptrace_scope, 0 where the kernel has no Yama.
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
