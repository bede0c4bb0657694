package data_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// saving returns the attributes of an op that saves a dataset in shards by parity.
func saving(compression string) kt.Attrs {
	none := []tensor.DType{}
	return kt.Attrs{"compression": compression, "shard_func": kt.Func{Name: "parity"}, "use_shard_func": true, "Tshard_func_args": none,
		"reader_func": kt.Func{Name: "flat"}, "Treader_func_args": none}
}

// sorted returns the elements that a test received, in ascending order, for datasets whose shards come one after the other.
func sorted(told string) string {
	list := strings.Fields(told)
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(fmt.Sprintf("%6s", a), fmt.Sprintf("%6s", b)) })
	return strings.Join(list, " ")
}

func loads(d *kt.Device, dir, compression string) *pipe {
	return newPipe(d).op("LoadDataset", saving(compression), kt.Str(nil, dir))
}

func TestSavedAndLoaded(t *testing.T) {
	for _, compression := range []string{"", "GZIP", "ZLIB", "SNAPPY"} {
		t.Run(compression, func(t *testing.T) {
			d := kt.NewDevice(t)
			functionDevice = d
			dir := filepath.Join(t.TempDir(), "saved [it]")
			p := newPipe(d).numbers(500)
			out, err := d.Try(kt.Op{Type: "SaveDataset", Attrs: p.attrs(saving(compression)), Functions: functions, Step: kt.NewStep()}, retained(p.now), kt.Str(nil, dir))
			if err != nil || len(out) != 0 {
				t.Fatal(out, err)
			}
			p.now.Release()
			l := loads(d, dir, compression)
			it := l.iterate(t)
			defer l.now.Release()
			if got, want := it.rest(600), spaced(0, 500, 2)+" "+spaced(1, 500, 2)+" end"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			it.close()
			n := d.Run(t, kt.Op{Type: "DatasetCardinality"}, retained(l.now))[0]
			if got := tensor.Of[int64](n.Tensor)[0]; got != 500 {
				t.Errorf("%d elements", got)
			}
			n.Release()
		})
	}
}

// spaced returns the numbers from a to b by step.
func spaced(a, b, step int) string {
	var list []string
	for ; a < b; a += step {
		list = append(list, fmt.Sprint(a))
	}
	return strings.Join(list, " ")
}

// An iterator that saves its elements, and is itself saved midway and restored elsewhere, leaves a complete dataset without duplicates.
func TestSavingIsRestored(t *testing.T) {
	for name, op := range map[string]string{"save": "SaveDatasetV2", "snapshot": "SnapshotDatasetV2"} {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			functionDevice = d
			dir := t.TempDir()
			writes := func() *pipe {
				return newPipe(d).numbers(20).op(op, saving("GZIP"), kt.Str(nil, dir))
			}
			p := writes()
			it := p.iterate(t)
			defer p.now.Release()
			it.rest(7)
			state := it.save()
			defer state.Release()
			it.rest(5) // later elements are discarded
			it.close()
			other := writes()
			to := other.iterate(t)
			defer other.now.Release()
			if err := to.restore(state); err != nil {
				t.Fatal(err)
			}
			if got, want := to.rest(50), spaced(7, 20, 1)+" end"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			to.close()
			read := writes()
			if op == "SaveDatasetV2" {
				read.now.Release()
				read = loads(d, dir, "GZIP")
			}
			again := read.iterate(t)
			defer read.now.Release()
			if got, want := sorted(again.rest(50)), sorted(spaced(0, 20, 1)+" end"); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			again.close()
		})
	}
}

// legacy returns the attributes of the first version of snapshots.
func legacy(compression, mode string, more kt.Attrs) kt.Attrs {
	attrs := kt.Attrs{"compression": compression, "mode": mode, "shard_size_bytes": int64(64)}
	for name, v := range more {
		attrs[name] = v
	}
	return attrs
}

func TestSnapshots(t *testing.T) {
	for _, op := range []string{"SnapshotDataset", "SnapshotDatasetV2"} {
		for _, compression := range []string{"", "GZIP", "SNAPPY"} {
			t.Run(op+compression, func(t *testing.T) {
				d := kt.NewDevice(t)
				functionDevice = d
				dir := t.TempDir()
				attrs := saving(compression)
				if op == "SnapshotDataset" {
					attrs = legacy(compression, "auto", nil)
				}
				pass := func(most int) string {
					p := newPipe(d).numbers(30).op(op, attrs, kt.Str(nil, dir))
					it := p.iterate(t)
					defer p.now.Release()
					defer it.close()
					return it.rest(most)
				}
				pass(10) // not to the end, so it does not count
				if op == "SnapshotDataset" {
					dir = t.TempDir() // in dir, that run would count as one that another iterator is writing
				}
				if got, want := pass(50), spaced(0, 30, 1)+" end"; got != want {
					t.Errorf("written: %s", got)
				}
				want := spaced(0, 30, 1) + " end"
				if op == "SnapshotDatasetV2" {
					want = spaced(0, 30, 2) + " " + spaced(1, 30, 2) + " end"
				}
				if got := pass(50); got != want {
					t.Errorf("read: %s\nwant: %s", got, want)
				}
			})
		}
	}
}

// Reading a snapshot continues where its iterator was saved, and another dataset has another snapshot.
func TestSnapshotReadersAreRestored(t *testing.T) {
	for _, op := range []string{"SnapshotDataset", "SnapshotDatasetV2"} {
		t.Run(op, func(t *testing.T) {
			d := kt.NewDevice(t)
			functionDevice = d
			dir := t.TempDir()
			attrs := saving("SNAPPY")
			if op == "SnapshotDataset" {
				attrs = legacy("SNAPPY", "auto", nil)
			}
			make := func(n int64) *pipe { return newPipe(d).numbers(n).op(op, attrs, kt.Str(nil, dir)) }
			first := make(12)
			it := first.iterate(t)
			defer first.now.Release()
			it.rest(50)
			it.close()
			for n := range 13 {
				p, q := make(12), make(12)
				from, to := p.iterate(t), q.iterate(t)
				from.rest(n)
				state := from.save()
				want := from.rest(50)
				if err := to.restore(state); err != nil {
					t.Fatal(err)
				}
				if got := to.rest(50); got != want {
					t.Errorf("after %d: got %s, want %s", n, got, want)
				}
				state.Release()
				from.close()
				to.close()
				p.now.Release()
				q.now.Release()
			}
			other := make(13)
			defer other.now.Release()
			ot := other.iterate(t)
			if got, want := ot.rest(50), spaced(0, 13, 1)+" end"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			ot.close()
		})
	}
}

func TestBadSnapshots(t *testing.T) {
	d := kt.NewDevice(t)
	functionDevice = d
	dir := t.TempDir()
	if p := loads(d, filepath.Join(dir, "none"), ""); status.CodeOf(p.err) != status.NotFound || !strings.Contains(p.err.Error(), "Could not find metadata file") {
		t.Errorf("without metadata: %v", p.err)
	}
	if p := loads(d, dir, "LZ4"); status.CodeOf(p.err) != status.InvalidArgument {
		t.Errorf("compression: %v", p.err)
	}
	write := func() {
		p := newPipe(d).numbers(100)
		if _, err := d.Try(kt.Op{Type: "SaveDataset", Attrs: p.attrs(saving("")), Functions: functions, Step: kt.NewStep()}, retained(p.now), kt.Str(nil, dir)); err != nil {
			t.Fatal(err)
		}
		p.now.Release()
	}
	write()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.shard", "*.snapshot"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || os.Truncate(files[0], info.Size()-3) != nil {
		t.Fatal(err)
	}
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	p := loads(d, dir, "")
	it := p.iterate(t)
	defer p.now.Release()
	told := strings.Fields(it.rest(60))
	// The first shard is cut off and the second is missing: the pipeline continues after errors, to its end.
	if !slices.Contains(told, "DATA_LOSS") || !slices.Contains(told, "NOT_FOUND") {
		t.Errorf("got %v", told)
	}
	it.close()
}

// The existing files of the data service are listed in order, and the others when they appear.
func TestSnapshotChunks(t *testing.T) {
	d := kt.NewDevice(t)
	dir := t.TempDir()
	chunks := filepath.Join(dir, "chunks")
	if err := os.Mkdir(chunks, 0o700); err != nil {
		t.Fatal(err)
	}
	touch := func(path string, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	touch(filepath.Join(chunks, "chunk_1_0_5"), "")
	touch(filepath.Join(chunks, "chunk_0_10_5"), "")
	touch(filepath.Join(chunks, "chunk_0_2_5"), "")
	texts := kt.Attrs{"output_types": []tensor.DType{tensor.String}, "output_shapes": []tensor.Shape{{}}}
	p := newPipe(d).op("ListSnapshotChunksDataset", texts, kt.Str(nil, dir))
	it := p.iterateOf(t, texts)
	defer p.now.Release()
	next := func() string {
		out, err := d.Try(kt.Op{Type: "IteratorGetNext", Attrs: texts, Step: kt.NewStep()}, retained(it.handle))
		if err != nil {
			return err.Error()
		}
		defer out[0].Release()
		return filepath.Base(out[0].Tensor.Strings()[0])
	}
	for _, want := range []string{"chunk_1_0_5", "chunk_0_2_5", "chunk_0_10_5"} {
		if got := next(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	touch(filepath.Join(chunks, "chunk_0_11_5"), "")
	touch(filepath.Join(dir, "DONE"), "")
	if got := next(); got != "chunk_0_11_5" {
		t.Errorf("got %q", got)
	}
	if got := next(); !strings.HasPrefix(got, "End of sequence") {
		t.Errorf("got %q", got)
	}
	it.close()
	touch(filepath.Join(dir, "ERROR"), `code: RESOURCE_EXHAUSTED message: "no \"space\""`)
	q := newPipe(d).op("ListSnapshotChunksDataset", texts, kt.Str(nil, dir))
	it = q.iterateOf(t, texts)
	defer q.now.Release()
	if got := next(); !strings.HasPrefix(got, `no "space"`) {
		t.Errorf("got %q", got)
	}
	it.close()
}

func TestCompressedElements(t *testing.T) {
	d := kt.NewDevice(t)
	types := []tensor.DType{tensor.Int64, tensor.String, tensor.Bool}
	out := d.Run(t, kt.Op{Type: "CompressElement", Attrs: kt.Attrs{"input_types": types}}, kt.I64(kt.S(3), 1, 2, 3), kt.Str(kt.S(2), "", "some text, some text"), yes(true))[0]
	m, err := out.Tensor.Proto()
	if err != nil {
		t.Fatal(err)
	}
	out.Release()
	for cut := range 2 {
		if cut > 0 {
			b := m.VariantVal[0].Metadata
			m.VariantVal[0].Metadata = append([]byte{b[0], b[1] - 1}, b[3:]...) // a block without its length
		}
		back, err := tensor.FromTensorProto(m, d.Pool())
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Try(kt.Op{Type: "UncompressElement", Attrs: kt.Attrs{"output_types": types, "output_shapes": []tensor.Shape{{3}, {2}, {}}}}, kernels.Value{Tensor: back})
		if cut > 0 {
			if status.CodeOf(err) != status.Internal {
				t.Errorf("a damaged one: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, s := tensor.Of[int64](got[0].Tensor), got[1].Tensor.Strings(); !slices.Equal(n, []int64{1, 2, 3}) || !slices.Equal(s, []string{"", "some text, some text"}) || !tensor.Of[bool](got[2].Tensor)[0] {
			t.Errorf("got %v %q", n, s)
		}
		for _, v := range got {
			v.Release()
		}
	}
}

func TestMapDefun(t *testing.T) {
	d := kt.NewDevice(t)
	attrs := kt.Attrs{"f": kt.Func{Name: "tens"}, "Targuments": int64s, "Tcaptured": []tensor.DType{}, "output_types": int64s, "output_shapes": []tensor.Shape{{-1}}}
	out, err := d.Try(kt.Op{Type: "MapDefun", Attrs: attrs, Functions: functions, Step: kt.NewStep()}, kt.I64(kt.S(3), 4, 5, 6))
	if err != nil {
		t.Fatal(err)
	}
	if got := out[0].Tensor; !got.Shape().Equal(kt.S(3, 2)) || !slices.Equal(tensor.Of[int64](got), []int64{40, 41, 50, 51, 60, 61}) {
		t.Errorf("got %v %v", got.Shape(), tensor.Of[int64](got))
	}
	out[0].Release()
	attrs["f"] = kt.Func{Name: "fail"}
	if _, err := d.Try(kt.Op{Type: "MapDefun", Attrs: attrs, Functions: functions, Step: kt.NewStep()}, kt.I64(kt.S(6), 0, 1, 2, 3, 4, 5)); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("got %v", err)
	}
	if _, err := d.Try(kt.Op{Type: "MapDefun", Attrs: attrs, Functions: functions, Step: kt.NewStep()}, i(0)); err == nil || !strings.Contains(err.Error(), "rank") {
		t.Errorf("got %v", err)
	}
}

// TestCompressedStringsTakeCountedMemory compresses many strings that share their bytes: a small tensor becomes a large block, which must be counted.
func TestCompressedStringsTakeCountedMemory(t *testing.T) {
	d := kt.NewDevice(t)
	shared := slices.Repeat([]string{strings.Repeat("a", 1<<20)}, 1024)
	out, err := d.Try(kt.Op{Type: "CompressElement", Attrs: kt.Attrs{"input_types": []tensor.DType{tensor.String}}}, kt.Str(kt.S(1024), shared...))
	for _, v := range out {
		v.Release()
	}
	if status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("a gigabyte is compressed without memory for it: %v", err)
	}
}
