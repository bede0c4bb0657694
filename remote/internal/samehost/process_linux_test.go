package samehost

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// ownerEnv makes the test binary a process whose memory is read. Its value selects the kind.
const ownerEnv = "TROUPE_TEST_OWNER"

const (
	ownerPlain = "plain"
	ownerProc  = "proc"  // in its own namespaces, for which it mounts /proc
	ownerDone  = "done"  // after it has replaced its program
	ownerLarge = "large" // with offeredLarge bytes
)

// The parties.
const (
	toTest  = "owner to test"
	toOwner = "test to owner"
	toThird = "owner to a third process"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(ownerEnv); how != "" {
		if err := runOwner(how, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "owner:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// offered is how many bytes an owner has for its readers.
const (
	offered      = 3*chunk + 4096
	offeredLarge = 64 << 20
)

// fill gives each part of a buffer a different content.
func fill(b []byte) {
	x := uint32(2463534242)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
}

// pooled returns memory like that of tensors.
func pooled(n int) []byte {
	b, err := tensor.Host.Get(n)
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// runOwner offers its memory, and executes commands, one per line, until its input ends.
func runOwner(how string, in io.Reader, out io.Writer) error {
	n := offered
	switch how {
	case ownerLarge:
		n = offeredLarge
	case ownerDone:
		fmt.Fprintln(out, "done")
		_, err := io.Copy(io.Discard, in)
		return err
	case ownerProc:
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return err
		}
	}
	data := pooled(n)
	fill(data)
	a, err := NewAdvert(toTest)
	if err != nil {
		fmt.Fprintln(out, "no", err)
		return nil
	}
	third, err := NewAdvert(toThird)
	if err != nil {
		return err
	}
	ticket, ok := a.Lend(data)
	if !ok {
		return fmt.Errorf("%d bytes at %#x cannot be lent", n, addressOf(data))
	}
	fmt.Fprintf(out, "%x %x %d\n", a.Bytes(), third.Bytes(), ticket)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch word, rest, _ := strings.Cut(lines.Text(), " "); word {
		case "close":
			if err := a.Close(); err != nil {
				return err
			}
			fmt.Fprintln(out, "done")
		case "lend":
			var from, n int
			if _, err := fmt.Sscan(rest, &from, &n); err != nil {
				return err
			}
			ticket, ok := a.Lend(data[from : from+n])
			fmt.Fprintln(out, ticket, ok)
		case "return":
			var ticket uint64
			if _, err := fmt.Sscan(rest, &ticket); err != nil {
				return err
			}
			a.Return(ticket)
			fmt.Fprintln(out, "done")
		case "self":
			self, err := Self()
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%x\n", self)
		case "forge": // a record among data that others gave to this process
			c := a.claim
			c.address = addressOf(data)
			r := (*record)(unsafe.Pointer(unsafe.SliceData(data)))
			r.proof = c.proof(toTest)
			r.slots[0].address.Store(c.address)
			r.slots[0].size.Store(offered)
			fmt.Fprintf(out, "%x\n", c.encode())
		case "exec":
			return syscall.Exec("/proc/self/exe", os.Args[:1], append(os.Environ(), ownerEnv+"="+ownerDone))
		case "attach": // the owner reads its reader
			b, err := hex.DecodeString(rest)
			if err != nil {
				return err
			}
			_, err = Attach(b, toOwner)
			fmt.Fprintln(out, int(status.CodeOf(err)), err)
		case "peek": // the same without Attach's own checks
			b, err := hex.DecodeString(rest)
			if err != nil {
				return err
			}
			c, err := parse(b)
			if err != nil {
				return err
			}
			m := &Memory{claim: *c, proof: c.proof(toOwner)}
			_, err = m.fetch(nil, 0, 0)
			err = m.explain(err, 0)
			fmt.Fprintln(out, int(status.CodeOf(err)), err)
		case "send": // the data over TCP, for comparison
			if err := sendLoop(rest, data); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown line %q", lines.Text())
		}
	}
	return errors.Join(a.Close(), third.Close())
}

// owner is a process whose memory is read.
type owner struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	first  string // its first line
	advert []byte
	third  []byte // its advert to a third process
	ticket uint64 // of all its data
}

func startOwner(t testing.TB, how string, attr *syscall.SysProcAttr) *owner {
	t.Helper()
	o := &owner{t: t, cmd: exec.Command("/proc/self/exe")}
	o.cmd.Env = append(os.Environ(), ownerEnv+"="+how)
	o.cmd.Stderr = os.Stderr
	o.cmd.SysProcAttr = attr
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.kill)
	o.out = bufio.NewReader(out)
	o.first = o.line()
	if strings.HasPrefix(o.first, "no ") {
		return o
	}
	if _, err := fmt.Sscanf(o.first, "%x %x %d", &o.advert, &o.third, &o.ticket); err != nil {
		t.Fatalf("the owner says %q: %v", o.first, err)
	}
	return o
}

func (o *owner) line() string {
	o.t.Helper()
	line, err := o.out.ReadString('\n')
	if err != nil {
		o.t.Fatalf("the owner said %q and ended: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// tell sends the owner a line and waits for its answer.
func (o *owner) tell(line string) string {
	o.t.Helper()
	if _, err := fmt.Fprintln(o.in, line); err != nil {
		o.t.Fatal(err)
	}
	return o.line()
}

// kill ends the process, which may have ended already.
func (o *owner) kill() {
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait()
}

func (o *owner) attach() *Memory {
	o.t.Helper()
	m, err := Attach(o.advert, toTest)
	if err != nil {
		o.t.Fatal(err)
	}
	return m
}

// lend makes the owner lend n bytes of its data.
func (o *owner) lend(from, n int) (ticket uint64) {
	o.t.Helper()
	var ok bool
	if _, err := fmt.Sscan(o.tell(fmt.Sprintf("lend %d %d", from, n)), &ticket, &ok); err != nil || !ok {
		o.t.Fatalf("lending %d bytes from %d: %v %v", n, from, ok, err)
	}
	return ticket
}
