package owner

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"unsafe"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// nearFrom is the size in bytes from which tensors are read and written in the server's memory, rather than sent. Below, a message costs less.
const nearFrom = 128 << 10

// Call calls a function of the program, as troupe.WithFunctions requires. When ctx ends, so does the call, although the function continues.
// The error is UNAVAILABLE if the program is gone. The function's own errors have the codes that TensorFlow gives them.
func (o *Owner) Call(ctx context.Context, c *troupe.FunctionCall) ([]*tensor.Tensor, error) {
	l, err := o.take(ctx)
	if err != nil {
		return nil, err
	}
	e := &exchange{line: l, call: c}
	stop := context.AfterFunc(ctx, e.giveUp)
	results, err := e.run()
	if stop() && e.whole {
		o.give(l)
	} else {
		o.drop(l)
	}
	if _, said := errors.AsType[*status.Error](err); err != nil && !said {
		err = o.lost(ctx, err)
	}
	return results, err
}

// exchange is a call on a connection.
type exchange struct {
	*line
	call  *troupe.FunctionCall
	whole bool // the program's answer was read to its end

	mu    sync.Mutex
	lent  bool // the program may be using the server's memory
	given bool // the exchange was given up
}

// giveUp ends the exchange as soon as the program no longer uses the server's memory.
func (e *exchange) giveUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.given = true
	if !e.lent {
		e.Close()
	}
}

// lend sets whether the program may use the server's memory from now on. It fails if the exchange was given up.
func (e *exchange) lend(lent bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lent = lent
	if e.given {
		e.lent = false
		e.Close()
		return net.ErrClosed
	}
	return nil
}

// run sends the call and reads the answer.
func (e *exchange) run() ([]*tensor.Tensor, error) {
	lent, err := e.send()
	if err != nil {
		return nil, err
	}
	for {
		kind, head, err := readMessage(e.in)
		if err != nil {
			return nil, err
		}
		switch {
		case kind == kindTaken && lent:
			lent = false
			if err := e.lend(false); err != nil {
				return nil, err
			}
		case kind == kindError && len(head) >= 4:
			e.whole = true
			return nil, failure(binary.LittleEndian.Uint32(head), string(head[4:]))
		case kind == kindResults && len(head) >= 2 && !lent:
			return e.results(head)
		default:
			return nil, errMalformed
		}
	}
}

func failure(code uint32, text string) error {
	if code == uint32(status.OK) || code > math.MaxInt8 {
		return errMalformed
	}
	return status.New(status.Code(code), text)
}

// send sends the call, and reports whether the program reads inputs from the server's memory.
func (e *exchange) send() (lent bool, err error) {
	c := e.call
	b := begin(kindCall)
	eager := byte(0)
	if c.Eager {
		eager = 1
	}
	if len(c.Name) > math.MaxUint16 || len(c.Inputs) > math.MaxUint16 || len(c.Outputs) > math.MaxUint16 {
		e.whole = true
		return false, status.InvalidArgumentf("a function of a program has a name of at most %d bytes, and as many inputs and outputs", math.MaxUint16)
	}
	b = append(b, eager)
	for _, n := range []int{len(c.Name), len(c.Inputs), len(c.Outputs)} {
		b = binary.LittleEndian.AppendUint16(b, uint16(n))
	}
	b = append(b, c.Name...)
	for _, d := range c.Outputs {
		b = append(b, byte(d))
	}
	var inline net.Buffers
	var made []*tensor.Tensor
	defer func() { release(made) }()
	for _, t := range c.Inputs {
		content := t
		if t.DType() == tensor.String {
			if content, err = packed(c, t); err != nil {
				e.whole = true
				return false, err
			}
			made = append(made, content)
		}
		bytes := content.Data()
		// Packed strings are released with the message.
		if e.near && len(bytes) >= nearFrom && content == t {
			b = describe(b, t, len(bytes), address(bytes))
			lent = true
			continue
		}
		b = describe(b, t, len(bytes), 0)
		if len(bytes) > 0 {
			inline = append(inline, bytes)
		}
	}
	if len(b) > maxHead {
		e.whole = true
		return false, status.InvalidArgumentf("the description of the inputs of %s takes %d bytes, the limit is %d", c.Name, len(b), maxHead)
	}
	if lent {
		if err := e.lend(true); err != nil {
			return false, err
		}
	}
	return lent, e.write(seal(b), inline)
}

// write writes a message with the bytes that follow: small ones at once.
func (e *exchange) write(b []byte, rest net.Buffers) error {
	for len(rest) > 0 && len(b)+len(rest[0]) <= nearFrom {
		b, rest = append(b, rest[0]...), rest[1:]
	}
	if len(rest) == 0 {
		_, err := e.Write(b)
		return err
	}
	all := append(net.Buffers{b}, rest...)
	_, err := all.WriteTo(e.Conn)
	return err
}

// results reads results.
func (e *exchange) results(head []byte) ([]*tensor.Tensor, error) {
	about := make([]description, binary.LittleEndian.Uint16(head))
	head = head[2:]
	for i := range about {
		var err error
		if about[i], head, err = described(head); err != nil {
			return nil, err
		}
	}
	results := make([]*tensor.Tensor, len(about)) // strings are packed at first
	err := e.fill(results, about)
	for i, d := range about {
		if packed := results[i]; err == nil && d.dtype == tensor.String {
			if results[i], err = unpacked(d.shape, packed.Data()); err == nil {
				packed.Release()
			} else {
				results[i] = packed
			}
		}
	}
	if err != nil {
		release(results)
		return nil, err
	}
	return results, nil
}

// fill allocates the results and reads their bytes, or has the program write them.
func (e *exchange) fill(results []*tensor.Tensor, about []description) (err error) {
	room := begin(kindRoom)
	for i, d := range about {
		dtype, shape := d.dtype, d.shape
		if dtype == tensor.String {
			dtype, shape = tensor.Uint8, tensor.Shape{int64(d.size)}
		}
		if d.elsewhere && !e.near {
			return errMalformed
		}
		if results[i], err = e.call.New(dtype, shape); err != nil {
			return err
		}
		if d.elsewhere {
			room = binary.LittleEndian.AppendUint64(room, address(results[i].Data()))
		}
	}
	for i, d := range about {
		if !d.elsewhere {
			if _, err := io.ReadFull(e.in, results[i].Data()); err != nil {
				return err
			}
		}
	}
	if len(room) > prefixSize {
		if err := e.lend(true); err != nil {
			return err
		}
		if _, err := e.Write(seal(room)); err != nil {
			return err
		}
		kind, _, err := readMessage(e.in)
		if err != nil {
			return err
		}
		if kind != kindWritten {
			return errMalformed
		}
		if err := e.lend(false); err != nil {
			return err
		}
	}
	e.whole = true
	return nil
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func release(all []*tensor.Tensor) {
	for _, t := range all {
		if t != nil {
			t.Release()
		}
	}
}
