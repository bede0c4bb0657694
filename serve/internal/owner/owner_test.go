package owner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is the other end: it accepts connections, and a test answers the calls on them.
type program struct {
	t *testing.T
	net.Listener
	lines chan *programLine
}

// programLine is a connection for calls as the program has it.
type programLine struct {
	net.Conn
	in    *bufio.Reader
	first string
}

const token = "secret"

// own starts a program and connects a server to it. The program gives the answer to each connection for calls.
func own(t *testing.T, answer byte) (*Owner, *program) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, Listener: l, lines: make(chan *programLine, 16)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			first, _ := in.ReadString('\n')
			if strings.HasPrefix(first, "TROUPE 1 calls "+token+" ") {
				c.Write([]byte{answer})
			}
			p.lines <- &programLine{Conn: c, in: in, first: first}
		}
	}()
	o, err := Connect(t.Context(), "unix", l.Addr().String(), token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		<-ended
		o.Control.Close()
		for _, l := range o.idle {
			l.Close()
		}
		close(p.lines)
		for l := range p.lines {
			l.Close()
		}
	})
	if first := p.next().first; first != "TROUPE 1 control secret\n" {
		t.Fatalf("the first connection says %q", first)
	}
	return o, p
}

func (p *program) next() *programLine { return <-p.lines }

// call calls a function in the background.
func call(ctx context.Context, o *Owner, c *troupe.FunctionCall) (results func() ([]*tensor.Tensor, error)) {
	var got []*tensor.Tensor
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		got, failed = o.Call(ctx, c)
	}()
	return func() ([]*tensor.Tensor, error) {
		<-ended
		return got, failed
	}
}

// answer returns a message with the bytes that follow it.
func answer(kind byte, head []byte, rest ...byte) []byte {
	return append(seal(append(begin(kind), head...)), rest...)
}

// about returns the head of results of one tensor.
func about(t *tensor.Tensor, size int, elsewhere bool) []byte {
	address := uint64(0)
	if elsewhere {
		address = 1
	}
	return describe([]byte{1, 0}, t, size, address)
}

func large(t *testing.T) *tensor.Tensor {
	t.Helper()
	v, err := tensor.FromSlice(tensor.Uint8, tensor.Shape{nearFrom}, bytes.Repeat([]byte{7}, nearFrom))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// at returns bytes of this process by their address, as a program uses those of its server.
func at(address uint64, size int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&address))), size)
}

// TestNear: large inputs and results are read and written in the server's memory.
func TestNear(t *testing.T) {
	o, p := own(t, acceptedNear)
	got := call(t.Context(), o, &troupe.FunctionCall{Name: "f", Inputs: []*tensor.Tensor{large(t)}, Outputs: []tensor.DType{tensor.Uint8}})
	l := p.next()
	defer l.Close()
	var there, number uint64
	if _, err := fmt.Sscanf(l.first, "TROUPE 1 calls secret %x %x", &there, &number); err != nil || binary.NativeEndian.Uint64(at(there, 8)) != number {
		t.Fatalf("%q does not show a number: %v", l.first, err)
	}
	kind, head, err := readMessage(l.in)
	if err != nil || kind != kindCall {
		t.Fatal(kind, err)
	}
	input := head[7+1+1:]
	if d, _, err := described(input); err != nil || !d.elsewhere {
		t.Fatal(d, err)
	}
	if seen := at(binary.LittleEndian.Uint64(input[12:]), nearFrom); seen[0] != 7 || seen[nearFrom-1] != 7 {
		t.Error("the input is not where the call says")
	}
	l.Write(answer(kindTaken, nil))
	l.Write(answer(kindResults, about(large(t), nearFrom, true)))
	kind, head, err = readMessage(l.in)
	if err != nil || kind != kindRoom || len(head) != 8 {
		t.Fatal(kind, head, err)
	}
	copy(at(binary.LittleEndian.Uint64(head), nearFrom), bytes.Repeat([]byte{9}, nearFrom))
	l.Write(answer(kindWritten, nil))
	results, err := got()
	if err != nil || len(results) != 1 || results[0].Data()[nearFrom-1] != 9 {
		t.Fatal(results, err)
	}
	release(results)
}

// TestGivenUp: a call ends with its context, but not while the program uses the server's memory.
func TestGivenUp(t *testing.T) {
	for _, near := range []bool{false, true} {
		t.Run(fmt.Sprint(near), func(t *testing.T) {
			o, p := own(t, acceptedNear)
			ctx, cancel := context.WithCancel(t.Context())
			c := &troupe.FunctionCall{Name: "f"}
			if near {
				c.Inputs = []*tensor.Tensor{large(t)}
			}
			got := call(ctx, o, c)
			l := p.next()
			defer l.Close()
			if _, _, err := readMessage(l.in); err != nil {
				t.Fatal(err)
			}
			cancel()
			if near {
				l.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				if _, err := l.in.ReadByte(); err == io.EOF {
					t.Error("the connection has ended while the input was being read")
				}
				l.SetReadDeadline(time.Time{})
				l.Write(answer(kindTaken, nil))
			}
			if _, err := got(); status.CodeOf(err) != status.Cancelled {
				t.Errorf("the call failed with %v", err)
			}
			if _, err := l.in.ReadByte(); err != io.EOF {
				t.Errorf("the connection has not ended: %v", err)
			}
			if len(o.turns) != 0 || len(o.idle) != 0 {
				t.Errorf("%d turns are taken, %d connections idle", len(o.turns), len(o.idle))
			}
		})
	}
}

// TestAnswers: what a program may answer, and what it may not.
func TestAnswers(t *testing.T) {
	three, err := tensor.FromSlice(tensor.Int16, tensor.Shape{3}, []int16{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	words, err := tensor.FromStrings(tensor.Shape{2}, []string{"a", "bc"})
	if err != nil {
		t.Fatal(err)
	}
	wrong := []byte{2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'} // lengths that are not those of the bytes
	for name, c := range map[string]struct {
		say  []byte
		code status.Code
		text string
	}{
		"results":             {answer(kindResults, about(three, 6, false), 1, 0, 2, 0, 3, 0), status.OK, ""},
		"strings":             {answer(kindResults, about(words, 19, false), 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c'), status.OK, ""},
		"an error":            {answer(kindError, []byte{3, 0, 0, 0, 'n', 'o'}), status.InvalidArgument, "no"},
		"an end":              {nil, status.Unavailable, "the program that owns the server"},
		"half a message":      {[]byte{kindResults, 9}, status.Unavailable, "the program that owns the server"},
		"half a result":       {answer(kindResults, about(three, 6, false), 1), status.Unavailable, "the program that owns the server"},
		"an error without":    {answer(kindError, []byte{0, 0, 0, 0}), status.Internal, "malformed"},
		"a large head":        {[]byte{kindResults, 0, 0, 0, 255}, status.Internal, "malformed"},
		"another size":        {answer(kindResults, about(three, 7, false)), status.Internal, "malformed"},
		"another kind":        {answer(kindRoom, nil), status.Internal, "malformed"},
		"taken what was sent": {answer(kindTaken, nil), status.Internal, "malformed"},
		"elsewhere":           {answer(kindResults, about(three, 6, true)), status.Internal, "malformed"},
		"wrong strings":       {answer(kindResults, about(words, 18, false), wrong...), status.Internal, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			o, p := own(t, accepted)
			got := call(t.Context(), o, &troupe.FunctionCall{Name: "f"})
			l := p.next()
			if _, _, err := readMessage(l.in); err != nil {
				t.Fatal(err)
			}
			l.Write(c.say)
			if c.code != status.OK && c.code != status.InvalidArgument {
				l.Close()
			}
			results, err := got()
			if status.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v", err, c.code)
			}
			release(results)
			l.Close()
		})
	}
}

// TestTooManyInputs: a call whose description would not fit into a message fails, and its connection is used again.
func TestTooManyInputs(t *testing.T) {
	o, p := own(t, accepted)
	three, err := tensor.FromSlice(tensor.Int16, tensor.Shape{3}, []int16{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	// The limit is reached only if a call waits for an answer that it does not get.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	const each = descriptionSize + 8
	_, err = o.Call(ctx, &troupe.FunctionCall{Name: "f", Inputs: slices.Repeat([]*tensor.Tensor{three}, maxHead/each+1)})
	if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), fmt.Sprint("the limit is ", maxHead)) {
		t.Errorf("the call failed with %v", err)
	}
	got := call(ctx, o, &troupe.FunctionCall{Name: "f"})
	l := p.next()
	defer l.Close()
	if kind, head, err := readMessage(l.in); err != nil || kind != kindCall || len(head) != 7+1 {
		t.Fatalf("the next message is %d with %d bytes, %v", kind, len(head), err)
	}
	l.Write(answer(kindError, []byte{3, 0, 0, 0, 'n', 'o'}))
	if _, err := got(); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("the next call failed with %v", err)
	}
}

// TestRefused: a program that has too many calls says so.
func TestRefused(t *testing.T) {
	o, p := own(t, refused)
	_, err := o.Call(t.Context(), &troupe.FunctionCall{Name: "f"})
	if status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("the call failed with %v", err)
	}
	p.next().Close()
}

func FuzzDescribed(f *testing.F) {
	three, err := tensor.FromSlice(tensor.Int16, tensor.Shape{3}, []int16{1, 2, 3})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(describe(nil, three, 6, 0))
	f.Add(describe(nil, three, 6, 0)[:descriptionSize+5])
	f.Add([]byte{7, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		d, rest, err := described(b)
		if err != nil {
			return
		}
		if want := len(b) - descriptionSize - 8*len(d.shape); len(rest) != want {
			t.Errorf("%d bytes are left, want %d", len(rest), want)
		}
		if n, err := d.shape.NumElements(); err != nil || d.dtype != tensor.String && uint64(n)*uint64(d.dtype.Size()) != d.size {
			t.Errorf("%v was accepted", d)
		}
	})
}
