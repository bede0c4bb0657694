package durable

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"

	"github.com/troupe-run/troupe/graph/status"
)

// Source is what a resource is restored from: a cell, or what another process has sent of an image.
type Source interface {
	// Each calls visit with the entries in the order of their keys, or in that in which the resource has recorded them. visit may not keep key
	// or value. If visit fails, Each stops with its error.
	Each(visit func(key, value []byte) error) error
	// Cell returns the cell that keeps the resource from now on, or nil if it is not durable.
	Cell() *Cell
}

// Cell makes a cell the Source of its resource.
func (c *Cell) Cell() *Cell { return c }

const (
	// maxImage is the most bytes that an image copies. Tensors are referred to.
	maxImage = 256 << 20
	// maxEntry is the most bytes of an entry in an image. A large variable has many.
	maxEntry = 256 << 20
	// copyBytes is the size of the parts in which entries are copied.
	copyBytes = 1 << 20
)

// Image is what a resource has at one moment, durable or not: the entries that a cell of it would have. It is for another process.
type Image struct {
	parts []imagePart
	bytes int // copied
	err   error
}

// imagePart is an entry or, if it has no value, several that are encoded.
type imagePart struct {
	key   []byte
	value Value
}

// Take takes an image. state records what there is; it is called once, before Take returns. The caller calls Release. An image that would take
// too much memory is RESOURCE_EXHAUSTED.
func Take(state func(r Recorder)) (*Image, error) {
	i := &Image{}
	state(Recorder{image: i})
	if i.err != nil {
		i.Release()
		return nil, i.err
	}
	return i, nil
}

// add adds an entry, and takes over its value.
func (i *Image) add(key []byte, v Value) {
	if i.err != nil {
		v.Release()
		return
	}
	b, encoded := v.(Bytes)
	if !encoded {
		i.parts = append(i.parts, imagePart{key, v})
		return
	}
	last := len(i.parts) - 1
	if last < 0 || i.parts[last].value != nil || len(i.parts[last].key) >= copyBytes {
		i.parts = append(i.parts, imagePart{})
		last++
	}
	p := &i.parts[last]
	before := len(p.key)
	p.key = append(appendHead(p.key, key, len(b)), b...)
	if i.bytes += len(p.key) - before; i.bytes > maxImage {
		i.err = status.Errorf(status.ResourceExhausted, "its entries take more than %d bytes", maxImage)
	}
}

// appendHead appends what precedes a value of n bytes: the key after its length, and n.
func appendHead(b, key []byte, n int) []byte {
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	return binary.AppendUvarint(b, uint64(n))
}

// Release releases the values. It may be called again.
func (i *Image) Release() {
	for _, p := range i.parts {
		if p.value != nil {
			p.value.Release()
		}
	}
	i.parts = nil
}

// Send calls send with the encoded entries, in pieces of size bytes except for the last one. send may not keep a piece. If it fails, Send stops
// with its error. An image is sent once.
func (i *Image) Send(size int, send func(piece []byte) error) error {
	defer i.Release()
	out := &pieces{size: size, send: send}
	var value []byte
	for k := range i.parts {
		p := &i.parts[k]
		if p.value == nil {
			if err := out.write(p.key); err != nil {
				return err
			}
			continue
		}
		if n := sizeOf(p.value); n > maxEntry {
			return tooLarge(n)
		}
		var err error
		if value, err = p.value.Append(value[:0]); err != nil {
			return err
		}
		p.value.Release()
		head := appendHead(nil, p.key, len(value))
		*p = imagePart{}
		if len(value) > maxEntry {
			return tooLarge(len(value))
		}
		if err := cmp.Or(out.write(head), out.write(value)); err != nil { // the second does nothing after an error
			return err
		}
	}
	return out.flush()
}

func tooLarge(n int) error {
	return status.Errorf(status.ResourceExhausted, "an entry of it has %d bytes, and at most %d are sent at once", n, maxEntry)
}

// pieces divides what is written into pieces.
type pieces struct {
	size int
	send func(piece []byte) error
	b    []byte
	err  error
}

func (p *pieces) write(b []byte) error {
	for len(b) > 0 && p.err == nil {
		n := min(len(b), p.size-len(p.b))
		p.b = append(p.b, b[:n]...)
		if b = b[n:]; len(p.b) == p.size {
			p.err = p.flush()
		}
	}
	return p.err
}

func (p *pieces) flush() error {
	if p.err == nil && len(p.b) > 0 {
		p.err = p.send(p.b)
		p.b = p.b[:0]
	}
	return p.err
}

// Received returns the Source of what the pieces of an image contain, which r reads. Its Each may be called once, and reads until io.EOF; another
// error of r is its error. Malformed entries are DATA_LOSS.
func Received(r io.Reader) Source { return received{bufio.NewReader(r)} }

type received struct{ r *bufio.Reader }

// Cell implements Source.
func (received) Cell() *Cell { return nil }

// Each implements Source.
func (s received) Each(visit func(key, value []byte) error) error {
	var key, value bytes.Buffer
	for {
		n, err := binary.ReadUvarint(s.r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.read(&key, n)
		}
		if err == nil {
			n, err = binary.ReadUvarint(s.r)
		}
		if err == nil {
			err = s.read(&value, n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return status.Errorf(status.DataLoss, "an entry is truncated")
		}
		if err == nil {
			err = visit(key.Bytes(), value.Bytes())
		}
		if err != nil {
			return err
		}
	}
}

// read reads n bytes into b, whose memory grows with what has come.
func (s received) read(b *bytes.Buffer, n uint64) error {
	b.Reset()
	if n > maxEntry {
		return status.Errorf(status.DataLoss, "an entry of %d bytes exceeds %d", n, maxEntry)
	}
	_, err := io.CopyN(b, s.r, int64(n))
	return err
}
