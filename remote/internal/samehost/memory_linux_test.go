package samehost

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/graph/status"
)

func want(t *testing.T, what string, err error, code status.Code, text string) {
	t.Helper()
	if status.CodeOf(err) != code || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v: %v; want %v with %q", what, status.CodeOf(err), err, code, text)
	}
}

func content() []byte {
	b := make([]byte, offered)
	fill(b)
	return b
}

func TestRead(t *testing.T) {
	o := startOwner(t, ownerPlain, nil)
	m, data := o.attach(), content()
	for _, c := range []struct{ from, n int }{
		{0, 0}, {0, 1}, {4095, 2}, {7, 4096}, {0, chunk - 1}, {1, chunk}, {0, chunk + 1}, {13, 2 * chunk}, {0, offered - 1}, {offered - 1, 0}, {offered - 2, 1},
	} {
		dst := bytes.Repeat([]byte{0xee}, c.n+1)
		if err := m.Read(dst[:c.n], o.lend(c.from, c.n+1)); err != nil {
			t.Fatalf("%d bytes from %d: %v", c.n, c.from, err)
		}
		if !bytes.Equal(dst[:c.n], data[c.from:c.from+c.n]) {
			t.Errorf("%d bytes from %d are not what is there", c.n, c.from)
		}
		if dst[c.n] != 0xee {
			t.Errorf("%d bytes from %d: wrote beyond the end", c.n, c.from)
		}
	}
}

func TestConcurrentReads(t *testing.T) {
	o := startOwner(t, ownerPlain, nil)
	m, data, dst := o.attach(), content(), make([]byte, offered)
	const parts = 8
	const size = offered / parts
	errs := make([]error, parts)
	var wg sync.WaitGroup
	for i := range parts {
		ticket := o.lend(i*size, size)
		wg.Go(func() { errs[i] = m.Read(dst[i*size:(i+1)*size], ticket) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(dst, data) {
		t.Error("not what is there")
	}
}

// TestOtherProcess: bytes of a process other than the Advert's are rejected.
func TestOtherProcess(t *testing.T) {
	const why = "is gone, or has withdrawn"
	for name, end := range map[string]func(*owner){
		"dead":                 (*owner).kill,
		"closed":               func(o *owner) { o.tell("close") },
		"another with the pid": func(o *owner) { o.tell("exec") },
	} {
		t.Run(name, func(t *testing.T) {
			o := startOwner(t, ownerPlain, nil)
			m := o.attach()
			end(o)
			for _, n := range []int{0, 1, offered} {
				want(t, fmt.Sprintf("reading %d bytes", n), m.Read(make([]byte, n), o.ticket), status.Unavailable, why)
			}
			_, err := Attach(o.advert, toTest)
			want(t, "attaching", err, status.Unavailable, "")
		})
	}
}

func TestAttachRefuses(t *testing.T) {
	o, other := startOwner(t, ownerPlain, nil), startOwner(t, ownerPlain, nil)
	thread := os.Getpid()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range threads {
		if id, err := strconv.Atoi(entry.Name()); err == nil && id != os.Getpid() {
			thread = id
		}
	}
	if thread == os.Getpid() {
		t.Error("this process has one thread only")
	}
	for _, c := range []struct {
		name   string
		change func(*claim)
		code   status.Code
		text   string
	}{
		{"nothing", func(*claim) {}, status.OK, ""},
		{"another machine", func(c *claim) { c.boot[0]++ }, status.FailedPrecondition, "another machine"},
		{"another namespace", func(c *claim) { c.namespace++ }, status.FailedPrecondition, "another PID namespace"},
		{"another pid", func(c *claim) { c.pid = uint32(other.cmd.Process.Pid) }, status.Unavailable, "gone"},
		{"this process", func(c *claim) { c.pid = uint32(os.Getpid()) }, status.FailedPrecondition, "this process's own"},
		{"a thread of this process", func(c *claim) { c.pid = uint32(thread) }, status.FailedPrecondition, "this process's own"},
		{"no process", func(c *claim) { c.pid = math.MaxInt32 }, status.Unavailable, "no process 2147483647"},
		{"another nonce", func(c *claim) { c.nonce[nonceSize-1]++ }, status.Unavailable, "gone"},
		{"readable memory without a proof", func(c *claim) { c.address = o.ticket & (1<<addressBits - 1) }, status.Unavailable, "gone"},
		{"no memory", func(c *claim) { c.address = 8 }, status.Unavailable, "gone"},
		{"the end of the address space", func(c *claim) { c.address = math.MaxUint64 }, status.Unavailable, "gone"},
	} {
		claimed, err := parse(o.advert)
		if err != nil {
			t.Fatal(err)
		}
		c.change(claimed)
		_, err = Attach(claimed.encode(), toTest)
		want(t, c.name, err, c.code, c.text)
	}
	_, err = Attach([]byte("nonsense"), toTest)
	want(t, "nonsense", err, status.Unimplemented, "version")
}

// TestOtherParties: an Advert is valid only for the parties for which it was made.
func TestOtherParties(t *testing.T) {
	o := startOwner(t, ownerPlain, nil)
	for name, c := range map[string]struct {
		advert  []byte
		parties string
		code    status.Code
	}{
		"its own":                    {o.advert, toTest, status.OK},
		"another reader's":           {o.third, toTest, status.Unavailable},
		"the other reader's":         {o.third, toThird, status.OK},
		"another owner's":            {o.advert, "another owner to test", status.Unavailable},
		"nobody's":                   {o.advert, "", status.Unavailable},
		"one that lends to no other": {o.advert, toThird, status.Unavailable},
	} {
		_, err := Attach(c.advert, c.parties)
		want(t, name, err, c.code, "")
	}
	m, err := Attach(o.third, toThird)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "what was lent to another", m.Read(make([]byte, 1), o.ticket), status.InvalidArgument, "has not lent")
}

// TestForgedRecord: data that a process received from others is not accepted as a record, even if it looks like one.
func TestForgedRecord(t *testing.T) {
	o := startOwner(t, ownerPlain, nil)
	forged, err := hex.DecodeString(o.tell("forge"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse(forged)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Memory{claim: *c, proof: c.proof(toTest)}).Read(make([]byte, offered), c.address); err != nil {
		t.Fatalf("the record is not well forged: %v", err)
	}
	_, err = Attach(forged, toTest)
	want(t, "a forged record", err, status.Unavailable, "gone")
}

// TestNotLent: a ticket reads only what was lent with it.
func TestNotLent(t *testing.T) {
	o := startOwner(t, ownerPlain, nil)
	m := o.attach()
	first, second, back := o.lend(0, 4096), o.lend(8192, 2*chunk), o.lend(4096, 4096)
	o.tell(fmt.Sprint("return ", back))
	at := func(ticket uint64) uint64 { return ticket & (1<<addressBits - 1) }
	for name, c := range map[string]struct {
		ticket uint64
		n      int
	}{
		"the next byte":                {first, 4097},
		"beyond a range of two chunks": {second, 2*chunk + 1},
		"another address in its slot":  {first + 1, 1},
		"the slot of another range":    {second - at(second) + at(first), 4096},
		"a returned range":             {back, 4096},
		"a free slot":                  {(slots-1)<<addressBits | at(first), 1},
		"no address in a free slot":    {(slots - 1) << addressBits, 0},
		"no such slot":                 {slots<<addressBits | at(first), 1},
		"the last slot of all":         {1<<64 - 1, 1},
		"the record":                   {m.claim.address, proofSize},
		"the first page":               {(slots-1)<<addressBits | 1, 1},
	} {
		want(t, name, m.Read(make([]byte, c.n), c.ticket), status.InvalidArgument, fmt.Sprintf("has not lent %d bytes", c.n))
	}
	if err := m.Read(make([]byte, 4096), first); err != nil {
		t.Error(err)
	}
}

// TestMissingMemory: lending a range that the process does not have is an INTERNAL error, not the process's end.
func TestMissingMemory(t *testing.T) {
	a := advertise(t, toTest)
	m := own(t, a, toTest)
	pages, err := unix.Mmap(-1, 0, 2*chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(pages) })
	at, ok := a.Lend(pages)
	if !ok {
		t.Fatal("memory of the system's cannot be lent")
	}
	dst := make([]byte, 2*chunk)
	if err := m.Read(dst, at); err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	if err := unix.Mprotect(pages[chunk+page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if err := m.Read(dst[:chunk+page], at); err != nil {
		t.Fatalf("all that is there: %v", err)
	}
	for name, n := range map[string]int{"a byte too much": chunk + page + 1, "a chunk too much": 2 * chunk} {
		want(t, name, m.Read(dst[:n], at), status.Internal, "which it does not have")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, "missing memory of a closed advert", m.Read(dst, at), status.Unavailable, "withdrawn")
}

func privileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be several users")
	}
}

func TestOtherUser(t *testing.T) {
	privileged(t)
	mine := advertise(t, toOwner)
	const somebody = 65534
	o := startOwner(t, ownerPlain, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: somebody, Gid: somebody}})
	// The kernel would permit this test to read that process: Attach refuses it.
	_, err := Attach(o.advert, toTest)
	want(t, "another user's memory", err, status.PermissionDenied, "it is one of user 65534, this one of user 0")
	want(t, "letting another user read", mine.Allow(o.advert), status.PermissionDenied, "user 65534")
	for word, text := range map[string]string{
		"attach": "it is one of user 0, this one of user 65534",
		"peek":   "the kernel does not permit",
	} {
		answer := o.tell(fmt.Sprintf("%s %x", word, mine.Bytes()))
		if !strings.HasPrefix(answer, fmt.Sprint(int(status.PermissionDenied))) || !strings.Contains(answer, text) {
			t.Errorf("%s of another user's memory: %s", word, answer)
		}
	}
}

func TestOtherNamespace(t *testing.T) {
	privileged(t)
	o := startOwner(t, ownerProc, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS})
	_, err := Attach(o.advert, toTest)
	want(t, "a container's memory", err, status.FailedPrecondition, "another PID namespace")

	// With our /proc its pids cannot be distinguished from ours.
	o = startOwner(t, ownerPlain, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	if !strings.Contains(o.first, "/proc is that of another PID namespace") {
		t.Errorf("a process without a /proc of its own offers %q", o.first)
	}
}

func TestForbiddenTellsWhatHelps(t *testing.T) {
	for scope, text := range map[int]string{0: "SYS_PTRACE", 1: "has not allowed", 2: "is 2; 1 or 0 would do", 3: "is 3"} {
		if got := forbidden(scope); !strings.Contains(got, text) {
			t.Errorf("ptrace_scope %d: %s", scope, got)
		}
	}
}
