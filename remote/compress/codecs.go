package compress

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

var (
	errShort   = errors.New("it is too short")
	errLong    = errors.New("it is too long")
	errTrailer = errors.New("something follows it")
)

// The encoders and decoders below are kept in pools: they hold tables of up to some MiB, which the garbage collector frees when they are no
// longer used.

// flateLevels are levels of compress/flate; above 6 it takes several times as long and gains next to nothing on tensors.
var flateLevels = [highest + 1]int{0, flate.BestSpeed, 4, 6}

var flateWriters [highest + 1]sync.Pool

// appender receives a deflate stream, and fails once the output is not smaller than the piece.
type appender struct {
	w     *flate.Writer
	out   []byte
	limit int // most bytes of out
}

func (a *appender) Write(p []byte) (int, error) {
	if len(a.out)+len(p) > a.limit {
		return 0, errLong
	}
	a.out = append(a.out, p...)
	return len(p), nil
}

func appendDeflate(dst, src []byte, level int) ([]byte, bool) {
	a, _ := flateWriters[level].Get().(*appender)
	if a == nil {
		a = &appender{}
		w, err := flate.NewWriter(a, flateLevels[level])
		if err != nil {
			panic(err) // a level that compress/flate does not have
		}
		a.w = w
	}
	defer flateWriters[level].Put(a)
	a.out, a.limit = dst, len(dst)+len(src)-1
	a.w.Reset(a)
	_, err := a.w.Write(src)
	if err == nil {
		err = a.w.Close()
	}
	out := a.out
	a.out = nil
	return out, err == nil
}

// inflater is a deflate stream's reader and its input.
type inflater struct {
	src bytes.Reader
	r   io.ReadCloser
}

var inflaters = sync.Pool{New: func() any {
	i := &inflater{}
	i.r = flate.NewReader(&i.src)
	return i
}}

func readDeflate(dst, src []byte) error {
	i := inflaters.Get().(*inflater)
	defer inflaters.Put(i)
	i.src.Reset(src)
	defer i.src.Reset(nil)
	if err := i.r.(flate.Resetter).Reset(&i.src, nil); err != nil {
		return err
	}
	if n, err := io.ReadFull(i.r, dst); err != nil {
		return fmt.Errorf("after %d bytes: %w", n, err)
	}
	var more [1]byte
	switch n, err := io.ReadFull(i.r, more[:]); {
	case n > 0:
		return errLong
	case err != io.EOF:
		return err
	case i.src.Len() > 0:
		return errTrailer
	}
	return nil
}

// zstdLevels includes only levels at which the compressor is faster than a slow network.
var zstdLevels = [highest + 1]zstd.EncoderLevel{0, zstd.SpeedFastest, zstd.SpeedDefault, zstd.SpeedBetterCompression}

var zstdEncoders [highest + 1]sync.Pool

func appendZstd(dst, src []byte, level int) ([]byte, bool) {
	e, _ := zstdEncoders[level].Get().(*zstd.Encoder)
	if e == nil {
		var err error
		e, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstdLevels[level]), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(MaxPiece), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false), zstd.WithAllLitEntropyCompression(true))
		if err != nil {
			panic(err) // options that the library does not have
		}
	}
	defer zstdEncoders[level].Put(e)
	return e.EncodeAll(src, dst), true
}

var zstdDecoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(MaxPiece), zstd.WithDecoderMaxMemory(MaxPiece), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // options that the library does not have
	}
	return d
}}

func readZstd(dst, src []byte) error {
	d := zstdDecoders.Get().(*zstd.Decoder)
	defer zstdDecoders.Put(d)
	out, err := d.DecodeAll(src, dst[:0:len(dst)])
	switch {
	case err != nil:
		return err
	case len(out) != len(dst):
		return errShort
	}
	return nil
}

func s2Bound(n int) int { return s2.MaxEncodedLen(n) }

func appendS2(dst, src []byte, level int) ([]byte, bool) {
	encode := s2.EncodeBetter // EncodeBest compresses only 2 MB of floats per second
	if level == lowest {
		encode = s2.Encode
	}
	room := dst[len(dst):cap(dst)]
	return dst[:len(dst)+len(encode(room, src))], true
}

func readS2(dst, src []byte) error {
	switch n, err := s2.DecodedLen(src); { // Decode would allocate if dst is too small
	case err != nil:
		return err
	case n < len(dst):
		return errShort
	case n > len(dst):
		return errLong
	}
	_, err := s2.Decode(dst, src)
	return err
}
