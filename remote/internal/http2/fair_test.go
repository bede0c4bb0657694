package http2

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	x "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// roleVar makes another process of this test binary: a server, or a client that attacks one.
const roleVar = "TROUPE_TEST_HTTP2_ROLE"

// roles are the things that such a process can do. It ends when its standard input ends.
var roles = map[string]func() error{"server": serveRole}

func init() {
	for name, a := range floods {
		roles[name] = func() error { return attackRole(a) }
	}
}

// playRole plays the role in roleVar. It returns false if there is none.
func playRole() bool {
	role := os.Getenv(roleVar)
	if role == "" {
		return false
	}
	if err := roles[role](); err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		os.Exit(1)
	}
	return true
}

// flood is an attack: several connections send without a pause.
type flood struct {
	conns int
	// says appends the data of one write. n counts from 0.
	says func(fr *x.Framer, block func(path string, more ...hpack.HeaderField) []byte, n int)
}

// floods are attacks by frames and calls that cost the server more than the client.
var floods = map[string]flood{
	"nothing":           {}, // but it keeps a processor busy
	"window updates":    {1, frames(func(fr *x.Framer, _ int) { fr.WriteWindowUpdate(0, 1) })},
	"window updates ×8": {8, frames(func(fr *x.Framer, _ int) { fr.WriteWindowUpdate(0, 1) })},
	"unary calls":       {1, calls("/t/echo", framed([]byte("x")))},
	"unary calls ×16":   {16, calls("/t/echo", framed([]byte("x")))},
	"inline calls":      {1, calls("/t/inline", framed([]byte("x")))},
	"inline calls ×16":  {16, calls("/t/inline", framed([]byte("x")))},
}

type saying = func(fr *x.Framer, block func(path string, more ...hpack.HeaderField) []byte, n int)

func frames(f func(fr *x.Framer, n int)) saying {
	return func(fr *x.Framer, _ func(string, ...hpack.HeaderField) []byte, _ int) {
		for n := range 1000 {
			f(fr, n)
		}
	}
}

func calls(path string, request []byte) saying {
	return func(fr *x.Framer, block func(string, ...hpack.HeaderField) []byte, n int) {
		for i := range 100 {
			id := uint32(2*(n*100+i) + 1)
			fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, EndHeaders: true, BlockFragment: block(path)})
			fr.WriteData(id, true, request)
		}
	}
}

// attackRole attacks the server whose address is on standard input, over and over, until that is closed.
func attackRole(f flood) error {
	in := bufio.NewReader(os.Stdin)
	address, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	address = strings.TrimSpace(address)
	over := make(chan struct{})
	var work sync.WaitGroup
	if f.conns == 0 {
		work.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	for range f.conns {
		work.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					f.attack(address, over)
				}
			}
		})
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, in)
	close(over)
	work.Wait()
	return err
}

// attack sends what the flood says until the server ends the connection.
func (f flood) attack(address string, over <-chan struct{}) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	var work sync.WaitGroup
	defer work.Wait()
	defer nc.Close()
	work.Go(func() { io.Copy(io.Discard, nc) })
	stop := make(chan struct{})
	defer close(stop)
	work.Go(func() {
		select {
		case <-over:
			nc.Close()
		case <-stop:
		}
	})
	var b, list bytes.Buffer
	b.WriteString(preface)
	fr := x.NewFramer(&b, nil)
	fr.AllowIllegalWrites = true
	fr.WriteSettings(initialWindow(maxWindow))
	enc := hpack.NewEncoder(&list)
	block := func(path string, more ...hpack.HeaderField) []byte {
		list.Reset()
		for _, h := range append([]hpack.HeaderField{field(":method", "POST"), field(":scheme", "http"), field(":path", path), field("content-type", "application/grpc"), field("te", "trailers")}, more...) {
			enc.WriteField(h)
		}
		return list.Bytes()
	}
	for n := 0; ; n++ {
		f.says(fr, block, n)
		if _, err := b.WriteTo(nc); err != nil {
			return
		}
	}
}

// serveRole runs a server and prints its address.
func serveRole() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := serveOn(l)
	fmt.Println(l.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, s.end())
}

// spawn starts a process with a role, and returns its input and its first line of output.
func spawn(t testing.TB, role string, says string, env ...string) (line string, end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), roleVar+"="+role), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		in.Close()
		limit := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		defer limit.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	})
	t.Cleanup(end)
	io.WriteString(in, says)
	if line, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), end
}

// TestMeasureFloods reports which fraction of its speed a client that makes one call after another keeps during each flood.
func TestMeasureFloods(t *testing.T) {
	if os.Getenv("TROUPE_MEASURE") == "" {
		t.Skip("set TROUPE_MEASURE to measure")
	}
	address, _ := spawn(t, "server", "", "GOMAXPROCS=2")
	c := dialAddress(t, address)
	var took []time.Duration
	rate := func() float64 {
		took = took[:0]
		n := 0
		began := time.Now()
		for time.Since(began) < time.Second {
			call := time.Now()
			if _, err := invoke(withDeadline(t), c, "/t/inline", []byte("x")); err != nil {
				t.Fatal(err)
			}
			n++
			took = append(took, time.Since(call))
		}
		return float64(n) / time.Since(began).Seconds()
	}
	rate()
	for name := range floods {
		alone := rate()
		_, end := spawn(t, name, address+"\n", "GOMAXPROCS=1")
		beside := rate()
		end()
		slices.Sort(took)
		t.Logf("%-20s %6.0f/s alone, %6.0f/s beside, %.2f; median %v", name, alone, beside, beside/alone, took[len(took)/2])
	}
}
