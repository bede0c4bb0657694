package link

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/compress"
)

// idBytes returns n bytes of small int32 values.
func idBytes(n int) []byte {
	b := make([]byte, n+4)
	for i := 0; i < n; i += 4 {
		binary.LittleEndian.PutUint32(b[i:], rand.Uint32N(1000))
	}
	return b[:n]
}

func TestCompressedPushes(t *testing.T) {
	sink := newTestSink()
	s := testSpec(t, 2)
	a := startNode(t, s, 0, "", func(c *Config) { c.NoLending = true })
	startNode(t, s, 1, "", func(c *Config) { c.Sink = sink })
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	// Some pieces shrink, others do not.
	data := append(append(idBytes(pieceSize+8), randomBytes(2*pieceSize)...), idBytes(pieceSize/2+1)...)
	for _, name := range compress.Names() {
		by, err := compress.Parse(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		before := a.Stats()
		released := make(chan struct{})
		if err := p.PushCompressed(1, nil, data, by, 4, func() { close(released) }); err != nil {
			t.Fatal(err)
		}
		wait(t, released, "the release")
		if got := wait(t, sink.arrivals, "the arrival"); got.err != nil || !bytes.Equal(got.data, data) {
			t.Errorf("%v: the data did not arrive: %v", by, got.err)
		}
		if sent := a.Stats().BytesSent - before.BytesSent; by == compress.None && sent != int64(len(data)) || by != compress.None && sent > int64(len(data))*9/10 {
			t.Errorf("%v: %d bytes were sent as %d", by, len(data), sent)
		}
	}
	if p.Err() != nil {
		t.Error(p.Err())
	}
}

func TestCompressedFramesThatCannotBe(t *testing.T) {
	by, err := compress.Parse("zstd", 1)
	if err != nil {
		t.Fatal(err)
	}
	plain := idBytes(4000)
	packed, ok := by.Append(nil, plain, 4)
	if !ok {
		t.Fatal("the piece does not shrink")
	}
	total := uint64(len(plain))
	for name, c := range map[string]struct {
		frame frame
		piece []byte
		code  status.Code
	}{
		"a piece":                   {frame{kind: frameBegin, total: total, by: by, width: 4}, packed, status.OK},
		"larger than it stands for": {frame{kind: frameBegin, total: uint64(len(packed)), by: by, width: 4}, packed, status.InvalidArgument},
		"of another length":         {frame{kind: frameBegin, total: total + 1, by: by, width: 4}, packed, status.DataLoss},
		"of no algorithm":           {frame{kind: frameBegin, total: total, by: 0xff, width: 4}, packed, status.InvalidArgument},
		"of another algorithm":      {frame{kind: frameBegin, total: total, by: by + 4, width: 4}, packed, status.DataLoss},
		"an abandoned one":          {frame{kind: frameAbandon, total: total, by: by}, nil, status.InvalidArgument},
		"an empty one":              {frame{kind: frameBegin, total: total, by: by, width: 4}, nil, status.DataLoss},
	} {
		stream := &oneMessage{bytes.NewReader(append(c.frame.encode(nil, c.piece), c.piece...))}
		var head, buf []byte
		f, err := readFrame(stream, 0, &head)
		if err == nil {
			dst := make([]byte, f.plain)
			if err = f.piece(stream, dst, &buf); err == nil && !bytes.Equal(dst, plain) {
				t.Errorf("%s: it does not come back", name)
			}
		}
		if status.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
	}
}

// oneMessage is a stream of one message.
type oneMessage struct{ *bytes.Reader }

func (s *oneMessage) Next() (int, error)   { return s.Len(), nil }
func (s *oneMessage) Send(...[]byte) error { return nil }
func (s *oneMessage) Close() error         { return nil }

// Takes returns true.
func (*oneMessage) Takes(int) bool { return true }
