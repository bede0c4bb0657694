package compress

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name  string
		level int
		want  string // the algorithm, or a part of the error
	}{
		{"", 0, "none"},
		{"", 3, "none"},
		{"none", 0, "none"},
		{"deflate", 0, "deflate:1"},
		{"deflate", 3, "deflate:3"},
		{"gzip", 2, "deflate:2"},
		{"zstd", 1, "zstd:1"},
		{"zstd", 3, "zstd:3"},
		{"s2", 2, "s2:2"},
		{"snappy", 0, "s2:1"},
		{"lz4", 1, `"lz4"; the known ones are deflate, gzip, none, s2, snappy, zstd`},
		{"ZSTD", 1, `"ZSTD"; the known ones are`},
		{"zstd", 4, "compression_level is 4; it must be from 0 to 3"},
		{"zstd", -1, "compression_level is -1"},
	} {
		a, err := Parse(c.name, c.level)
		if err != nil {
			if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Parse(%q, %d) = %v, %v", c.name, c.level, status.CodeOf(err), err)
			}
			continue
		}
		if a.String() != c.want || !a.Valid() {
			t.Errorf("Parse(%q, %d) = %v, valid %v; want %s", c.name, c.level, a, a.Valid(), c.want)
		}
	}
}

// all returns all algorithms except None.
func all() []Algorithm {
	var list []Algorithm
	for a := range 256 {
		if a := Algorithm(a); a.Valid() && a != None {
			list = append(list, a)
		}
	}
	return list
}

func TestValid(t *testing.T) {
	if n := len(all()); n != 9 {
		t.Errorf("%d algorithms are valid, want 3 families with 3 levels", n)
	}
}

// pieces are contents of many kinds.
func pieces() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 70_001)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	floats := make([]byte, 4*30_011)
	for i := 0; i+4 <= len(floats); i += 4 {
		binary.LittleEndian.PutUint32(floats[i:], 0x3c000000|r.Uint32()&0x80ffffff)
	}
	ids := make([]byte, 8*9_001)
	for i := 0; i+8 <= len(ids); i += 8 {
		binary.LittleEndian.PutUint64(ids[i:], uint64(r.IntN(50_000)))
	}
	return map[string][]byte{
		"one byte": {7}, "nine bytes": []byte("abcabcabc"), "zeros": make([]byte, MaxPiece), "random": random, "floats": floats, "ids": ids,
		"text": bytes.Repeat([]byte("to be or not to be, "), 999),
	}
}

func TestRoundTrip(t *testing.T) {
	for name, src := range pieces() {
		for _, a := range all() {
			for _, width := range []int{0, 1, 2, 3, 4, 8, 16} {
				head := []byte("head")
				out, ok := a.Append(head, src, width)
				if !bytes.HasPrefix(out, head) {
					t.Fatalf("%s, %v, width %d: what was in dst is lost", name, a, width)
				}
				if !ok {
					if len(out) != len(head) {
						t.Errorf("%s, %v, width %d: a piece that does not shrink was appended", name, a, width)
					}
					if name == "zeros" || name == "text" {
						t.Errorf("%s, %v, width %d: it does not shrink", name, a, width)
					}
					continue
				}
				if name == "random" || len(out)-len(head) >= len(src) {
					t.Errorf("%s, %v, width %d: %d bytes became %d", name, a, width, len(src), len(out)-len(head))
				}
				back := make([]byte, len(src)+1)
				back[len(src)] = 0xa5
				if err := a.Decompress(back[:len(src)], out[len(head):], width); err != nil {
					t.Errorf("%s, %v, width %d: %v", name, a, width, err)
				} else if !bytes.Equal(back[:len(src)], src) || back[len(src)] != 0xa5 {
					t.Errorf("%s, %v, width %d: it does not come back", name, a, width)
				}
			}
		}
	}
}

func TestAppendLeavesLongPieces(t *testing.T) {
	for _, a := range append(all(), None, Algorithm(0x3c)) {
		for _, n := range []int{0, MaxPiece + 1} {
			if out, ok := a.Append(nil, make([]byte, n), 4); ok || len(out) > 0 {
				t.Errorf("%v compressed %d bytes", a, n)
			}
		}
	}
}

// TestDecompressRefuses checks that anything but exactly the piece is DATA_LOSS.
func TestDecompressRefuses(t *testing.T) {
	src := bytes.Repeat([]byte("tensor"), 1000)
	for _, a := range all() {
		good, ok := a.Append(nil, src, 1)
		if !ok {
			t.Fatalf("%v: it does not shrink", a)
		}
		for name, c := range map[string]struct {
			room int
			src  []byte
		}{
			"a longer piece":      {len(src) - 1, good},
			"a shorter piece":     {len(src) + 1, good},
			"a piece and more":    {len(src), append(bytes.Clone(good), 0)},
			"a piece twice":       {len(src), append(bytes.Clone(good), good...)},
			"two pieces for one":  {2 * len(src), append(bytes.Clone(good), good...)},
			"a part of a piece":   {len(src), good[:len(good)-1]},
			"nothing":             {len(src), nil},
			"no room":             {0, good},
			"more than a piece":   {MaxPiece + 1, beyond(a)},
			"a bomb":              {16, bomb(a)},
			"another algorithm's": {len(src), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		} {
			if name == "two pieces for one" && a.family() == familyZstd {
				continue // consecutive frames are a legal zstd stream, whose length is checked
			}
			if err := a.Decompress(make([]byte, c.room), c.src, 1); status.CodeOf(err) != status.DataLoss {
				t.Errorf("%v, %s: %v", a, name, err)
			}
		}
	}
	for _, a := range []Algorithm{None, 1, familyZstd << 2 & 0xf0, 0xff} {
		if err := a.Decompress(make([]byte, 4), []byte{1, 2, 3}, 1); status.CodeOf(err) != status.DataLoss {
			t.Errorf("Algorithm %d: %v", a, err)
		}
	}
}

// beyond is the compressed form of one byte more than a piece may have.
func beyond(a Algorithm) []byte {
	src := make([]byte, MaxPiece+1)
	out, _ := a.compress(make([]byte, 0, a.bound(len(src))), src)
	return out
}

// bomb is a compressed full piece of zeros.
func bomb(a Algorithm) []byte {
	out, _ := a.Append(nil, make([]byte, MaxPiece), 1)
	return out
}

// TestSteadyState checks that compressing and decompressing take their memory from pools.
func TestSteadyState(t *testing.T) {
	if extent.RaceDetector {
		t.Skip("under the race detector sync.Pool drops things at random")
	}
	src := pieces()["ids"]
	back := make([]byte, len(src))
	var out []byte
	for _, a := range all() {
		round := func() {
			out, _ = a.Append(out[:0], src, 8)
			if err := a.Decompress(back, out, 8); err != nil {
				t.Fatal(err)
			}
		}
		least := testing.AllocsPerRun(1, round)
		for range 4 { // a collection empties the pools
			least = min(least, testing.AllocsPerRun(1, round))
		}
		// compress/flate allocates small tables for each stream.
		if least > 0 && a.family() != familyDeflate || least > 16 {
			t.Errorf("%v: %v allocations for a piece", a, least)
		}
	}
}

func TestConcurrently(t *testing.T) {
	src := pieces()["ids"]
	var wg sync.WaitGroup
	for _, a := range all() {
		for range 3 {
			wg.Go(func() {
				out, ok := a.Append(nil, src, 8)
				back := make([]byte, len(src))
				if err := a.Decompress(back, out, 8); !ok || err != nil || !bytes.Equal(back, src) {
					t.Errorf("%v: %v, %v", a, ok, err)
				}
			})
		}
	}
	wg.Wait()
}

func TestShuffle(t *testing.T) {
	src := []byte("a1b2c3d4e5f6g7h8i9!")
	dst := make([]byte, len(src))
	shuffle(dst, src, 2)
	if string(dst) != "abcdefghi123456789!" {
		t.Errorf("shuffled to %q", dst)
	}
	shuffle(dst[:16], []byte("abcd1234ABCD5678"), 4)
	if string(dst[:16]) != "a1A5b2B6c3C7d4D8" {
		t.Errorf("shuffled to %q", dst[:16])
	}
}

func FuzzDecompress(f *testing.F) {
	for _, a := range all() {
		for _, width := range []int{1, 4} {
			out, _ := a.Append(nil, []byte("abcabcabcabcabcabcabcabcabcabcabcabcabc"), width)
			f.Add(byte(a), byte(width), 39, out)
		}
		f.Add(byte(a), byte(1), 16, bomb(a))
	}
	f.Fuzz(func(t *testing.T, algorithm, width byte, n int, src []byte) {
		if n < 0 || n > 1<<16 {
			return
		}
		room := bytes.Repeat([]byte{0xa5}, n+64)
		err := Algorithm(algorithm).Decompress(room[:n:n], src, int(width))
		if err != nil && status.CodeOf(err) != status.DataLoss {
			t.Errorf("%v is no DATA_LOSS", err)
		}
		if !bytes.Equal(room[n:], bytes.Repeat([]byte{0xa5}, 64)) {
			t.Error("it wrote beyond its room")
		}
		// Any other input must survive a round trip.
		a := Algorithm(algorithm)
		if out, ok := a.Append(nil, src, int(width)); ok {
			back := make([]byte, len(src))
			if err := a.Decompress(back, out, int(width)); err != nil || !bytes.Equal(back, src) {
				t.Errorf("%v, width %d: %x does not come back: %v", a, width, src, err)
			}
		}
	})
}
