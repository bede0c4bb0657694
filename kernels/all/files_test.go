package all

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/debug"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/input"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"github.com/troupe-run/troupe/kernels/lookup"
	"github.com/troupe-run/troupe/kernels/save"
	"github.com/troupe-run/troupe/kernels/summary"
)

// fileOp returns an op that uses the file, folder or prefix at a path, and its inputs. A session that may use all files creates whatever
// the op needs beforehand.
type fileOp func(d *kt.Device, t *testing.T, path string) (op kt.Op, inputs []any)

func str(list ...string) *tensor.Tensor { return kt.Str(kt.S(int64(len(list))), list...) }

// on returns a fileOp with inputs after the path.
func on(attrs kt.Attrs, inputs ...func() any) fileOp {
	return func(_ *kt.Device, _ *testing.T, path string) (kt.Op, []any) {
		all := []any{kt.Str(nil, path)}
		for _, in := range inputs {
			all = append(all, in())
		}
		return kt.Op{Attrs: attrs}, all
	}
}

func names() any  { return str("a") }
func none() any   { return str("") }
func number() any { return kt.F32(kt.S(1), 1) }

// reads returns a fileOp that reads with a kind of reader.
func reads(kind string, attrs kt.Attrs, upTo bool) fileOp {
	return func(d *kt.Device, t *testing.T, path string) (kt.Op, []any) {
		version := strings.TrimLeft(kind[len(kind)-2:], "er") // V2 or nothing
		r := d.Run(t, kt.Op{Type: kind, Attrs: attrs})[0]
		q := d.Run(t, kt.Op{Type: "FIFOQueue" + version, Attrs: kt.Attrs{"component_types": []tensor.DType{tensor.String}}})[0]
		d.Run(t, kt.Op{Type: "QueueEnqueue" + version}, retained(q), kt.Str(nil, path))
		in := []any{r, q}
		if upTo {
			in = append(in, kt.I64(nil, 2))
		}
		return kt.Op{}, in
	}
}

func retained(v kernels.Value) kernels.Value {
	if v.Tensor != nil {
		v.Tensor.Retain()
	}
	return v
}

// writes returns a fileOp that writes to the event file in a folder.
func writes(attrs kt.Attrs, inputs ...func() any) fileOp {
	return func(d *kt.Device, t *testing.T, path string) (kt.Op, []any) {
		all := []any{writer(d, t, path+".events")}
		for _, in := range inputs {
			all = append(all, in())
		}
		return kt.Op{Attrs: attrs}, all
	}
}

// writer returns the handle of a writer created by a session with all rights.
func writer(d *kt.Device, t *testing.T, path string) kernels.Value {
	t.Helper()
	w := d.Run(t, kt.Op{Type: "SummaryWriter", Attrs: kt.Attrs{"shared_name": "shared"}})[0]
	d.Run(t, kt.Op{Type: "CreateSummaryFileWriter"}, retained(w), kt.Str(nil, path), kt.I32(nil, 10), kt.I32(nil, 1000), kt.Str(nil, ".v2"))
	return w
}

func newWriter(d *kt.Device, t *testing.T, path string) (kt.Op, []any) {
	w := d.Run(t, kt.Op{Type: "SummaryWriter", Attrs: kt.Attrs{"shared_name": "new"}})[0]
	return kt.Op{}, []any{w, kt.Str(nil, path), kt.I32(nil, 10), kt.I32(nil, 1000), kt.Str(nil, ".v2")}
}

func fromText(table string) fileOp {
	return func(d *kt.Device, t *testing.T, path string) (kt.Op, []any) {
		h := d.Run(t, kt.Op{Type: table, Attrs: kt.Attrs{"key_dtype": tensor.String, "value_dtype": tensor.Int64}})[0]
		return kt.Op{Attrs: kt.Attrs{"key_index": -2, "value_index": -1}}, []any{h, kt.Str(nil, path)}
	}
}

func step() any { return kt.I64(nil, 1) }
func tag() any  { return kt.Str(nil, "tag") }

// fileOps are all ops that use files.
var fileOps = map[string][]fileOp{
	"SaveV2":                 {on(nil, names, none, number)},
	"RestoreV2":              {on(kt.Attrs{"dtypes": []tensor.DType{tensor.Float32}}, names, none)},
	"MergeV2Checkpoints":     {mergeFrom, mergeTo},
	"Save":                   {on(nil, names, number)},
	"SaveSlices":             {on(nil, names, none, number)},
	"Restore":                {on(kt.Attrs{"dt": tensor.Float32}, tag)},
	"RestoreSlice":           {on(kt.Attrs{"dt": tensor.Float32}, tag, tag)},
	"GenerateVocabRemapping": {on(kt.Attrs{"new_vocab_offset": 0, "num_new_vocab": 1}, tag)},
	"LoadAndRemapMatrix": {on(kt.Attrs{"num_rows": 1, "num_cols": 1}, tag, func() any { return kt.I64(kt.S(1), 0) }, func() any { return kt.I64(kt.S(0)) },
		func() any { return kt.F32(kt.S(0)) })},
	"ReadFile":      {on(nil)},
	"WriteFile":     {on(nil, tag)},
	"MatchingFiles": {on(nil), matches},
	"RecordInput":   {recordInput},
	"ImmutableConst": {func(_ *kt.Device, _ *testing.T, path string) (kt.Op, []any) {
		return kt.Op{Attrs: kt.Attrs{"memory_region_name": path, "dtype": tensor.Int8, "shape": tensor.Shape{1}}}, nil
	}},
	"PrintV2": {func(_ *kt.Device, _ *testing.T, path string) (kt.Op, []any) {
		return kt.Op{Attrs: kt.Attrs{"output_stream": "file://" + strings.TrimPrefix(path, "file://"), "end": "\n"}}, []any{kt.Str(nil, "")}
	}},
	"DecodeProtoV2": {decodesProto},
	"EncodeProto":   {encodesProto},
	"ReaderRead": {reads("WholeFileReader", nil, false), reads("TextLineReader", nil, false), reads("TFRecordReader", nil, false),
		reads("FixedLengthRecordReader", kt.Attrs{"record_bytes": 1}, false)},
	"ReaderReadV2": {reads("WholeFileReaderV2", nil, false), reads("TextLineReaderV2", nil, false), reads("TFRecordReaderV2", nil, false),
		reads("FixedLengthRecordReaderV2", kt.Attrs{"record_bytes": 1}, false)},
	"ReaderReadUpTo":          {reads("WholeFileReader", nil, true), reads("TextLineReader", nil, true)},
	"ReaderReadUpToV2":        {reads("WholeFileReaderV2", nil, true), reads("TextLineReaderV2", nil, true)},
	"CreateSummaryFileWriter": {newWriter},
	"FlushSummaryWriter":      {writes(nil)},
	"CloseSummaryWriter":      {writes(nil)},
	"WriteSummary":            {writes(nil, step, number, tag, tag)},
	"WriteScalarSummary":      {writes(nil, step, tag, number)},
	"WriteHistogramSummary":   {writes(nil, step, tag, number)},
	"WriteImageSummary": {writes(nil, step, tag, func() any { return kt.F32(kt.S(1, 1, 1, 1), 1) },
		func() any { return kt.U8(kt.S(4), 0, 0, 0, 0) })},
	"WriteAudioSummary":             {writes(nil, step, tag, func() any { return kt.F32(kt.S(1, 1), 1) }, func() any { return kt.F32(nil, 1) })},
	"WriteRawProtoSummary":          {writes(nil, step, none)},
	"WriteGraphSummary":             {writes(nil, step, func() any { return kt.Str(nil, "") })},
	"ImportEvent":                   {writes(nil, func() any { return kt.Str(nil, "") })},
	"DebugIdentity":                 {watches},
	"DebugNanCount":                 {watches},
	"DebugNumericSummary":           {watches},
	"FixedUnigramCandidateSampler":  {fixedUnigrams},
	"InitializeTableFromTextFile":   {fromText("HashTable")},
	"InitializeTableFromTextFileV2": {fromText("HashTableV2")},
	"DatasetToSingleElement": {iterates("TextLineDataset", nil, plain, size), iterates("TFRecordDataset", nil, plain, size),
		iterates("FixedLengthRecordDataset", nil, size, size, size, size), iterates("MatchingFilesDataset", nil),
		iterates("CSVDataset", stringElements, plain, size, no, comma, no, plain, numbers, plain), caches,
		iterates("SnapshotDatasetReader", snapshots, number0), iterates("SnapshotChunkDataset", snapshots), iterates("ListSnapshotChunksDataset", snapshots),
		savesDataset("SaveDatasetV2"), savesDataset("SnapshotDataset"), savesDataset("SnapshotDatasetV2")},
	"SaveDataset": {func(d *kt.Device, t *testing.T, path string) (kt.Op, []any) {
		return kt.Op{Attrs: snapshots, Functions: shards}, []any{oneString(d, t), kt.Str(nil, path)}
	}},
	"LoadDataset": {func(_ *kt.Device, _ *testing.T, path string) (kt.Op, []any) {
		return kt.Op{Attrs: snapshots, Functions: shards}, []any{kt.Str(nil, path)}
	}},
	"StatsAggregatorSetSummaryWriter": {func(d *kt.Device, t *testing.T, path string) (kt.Op, []any) {
		stats := d.Run(t, kt.Op{Type: "StatsAggregatorHandleV2", Attrs: kt.Attrs{"shared_name": "stats"}})[0]
		return kt.Op{}, []any{stats, writer(d, t, path+".events")}
	}},
	"DatasetToTFRecord": {writesDataset},
}

// snapshots are the attributes of the ops that save and load strings; shards are the functions that they name.
var (
	snapshots = kt.Attrs{"output_types": stringElements["output_types"], "output_shapes": stringElements["output_shapes"], "compression": "", "version": 2,
		"shard_func": kt.Func{Name: "shard"}, "reader_func": kt.Func{Name: "shard"}, "use_shard_func": true, "Tshard_func_args": []tensor.DType{},
		"Treader_func_args": []tensor.DType{}}
	shards = kt.Library{"shard": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		for _, a := range args {
			a.Release()
		}
		done([]kernels.Value{{Tensor: kt.I64(nil, 0)}}, nil)
	}}
)

// savesDataset returns a fileOp that requests the element of a dataset that is saved meanwhile.
func savesDataset(kind string) fileOp {
	return func(d *kt.Device, t *testing.T, path string) (kt.Op, []any) {
		dataset := d.Run(t, kt.Op{Type: kind, Attrs: snapshots, Functions: shards}, oneString(d, t), kt.Str(nil, path))[0]
		return kt.Op{Attrs: stringElements, Outputs: 1}, []any{dataset}
	}
}

func number0() any { return kt.I64(nil, 0) }
func no() any      { return kt.Of(tensor.Bool, nil, false) }
func comma() any   { return kt.Str(nil, ",") }
func numbers() any { return kt.I64(kt.S(0)) }
func plain() any   { return kt.Str(nil, "") }
func size() any    { return kt.I64(nil, 1) }

// stringElements are the attributes of a dataset of strings.
var stringElements = kt.Attrs{"output_types": []tensor.DType{tensor.String}, "output_shapes": []tensor.Shape{{}}}

// iterates returns a fileOp that requests the element of a dataset of files.
func iterates(kind string, attrs kt.Attrs, inputs ...func() any) fileOp {
	return func(d *kt.Device, t *testing.T, path string) (kt.Op, []any) {
		all := []any{kt.Str(nil, path)}
		for _, in := range inputs {
			all = append(all, in())
		}
		dataset := d.Run(t, kt.Op{Type: kind, Attrs: attrs}, all...)[0]
		return kt.Op{Attrs: stringElements, Outputs: 1}, []any{dataset}
	}
}

// oneString returns a dataset of one string.
func oneString(d *kt.Device, t *testing.T) kernels.Value {
	attrs := kt.Attrs{"Toutput_types": stringElements["output_types"], "output_shapes": stringElements["output_shapes"]}
	return d.Run(t, kt.Op{Type: "TensorDataset", Attrs: attrs}, kt.Str(nil, "x"))[0]
}

func caches(d *kt.Device, t *testing.T, path string) (kt.Op, []any) {
	dataset := d.Run(t, kt.Op{Type: "CacheDataset", Attrs: stringElements}, oneString(d, t), kt.Str(nil, path))[0]
	return kt.Op{Attrs: stringElements, Outputs: 1}, []any{dataset}
}

func writesDataset(d *kt.Device, t *testing.T, path string) (kt.Op, []any) {
	return kt.Op{}, []any{oneString(d, t), kt.Str(nil, path), kt.Str(nil, "")}
}

func fixedUnigrams(_ *kt.Device, _ *testing.T, path string) (kt.Op, []any) {
	return kt.Op{Attrs: kt.Attrs{"num_true": 1, "num_sampled": 1, "unique": false, "range_max": 1, "vocab_file": path, "distortion": float32(1),
		"num_reserved_ids": 0, "num_shards": 1, "shard": 0, "unigrams": []float32{}, "seed": 1, "seed2": 1}}, []any{kt.I64(kt.S(1, 1), 0)}
}

func decodesProto(_ *kt.Device, _ *testing.T, path string) (kt.Op, []any) {
	return kt.Op{Outputs: 1, Attrs: kt.Attrs{"message_type": "M", "field_names": []string{}, "output_types": []tensor.DType{}, "descriptor_source": path,
		"message_format": "binary", "sanitize": false}}, []any{str("")}
}

func encodesProto(_ *kt.Device, _ *testing.T, path string) (kt.Op, []any) {
	return kt.Op{Attrs: kt.Attrs{"message_type": "M", "field_names": []string{"x"}, "Tinput_types": []tensor.DType{tensor.Int32}, "descriptor_source": path}},
		[]any{kt.I32(kt.S(1, 1), 1), kt.I32(kt.S(1, 1), 1)}
}

func watches(_ *kt.Device, _ *testing.T, path string) (kt.Op, []any) {
	return kt.Op{Outputs: 1, Attrs: kt.Attrs{"T": tensor.Float32, "device_name": "/device:CPU:0", "tensor_name": "x:0", "debug_urls": []string{"file://" + strings.TrimPrefix(path, "file://")},
		"gated_grpc": false, "lower_bound": float32(0), "upper_bound": float32(1), "mute_if_healthy": false}}, []any{number()}
}

func mergeFrom(_ *kt.Device, t *testing.T, path string) (kt.Op, []any) {
	return kt.Op{}, []any{str(path), kt.Str(nil, filepath.Join(t.TempDir(), "to"))}
}

func mergeTo(_ *kt.Device, t *testing.T, path string) (kt.Op, []any) {
	return kt.Op{}, []any{str(filepath.Join(t.TempDir(), "from")), kt.Str(nil, path)}
}

func matches(_ *kt.Device, _ *testing.T, path string) (kt.Op, []any) {
	return kt.Op{}, []any{kt.Str(nil, path+"*")}
}

func recordInput(_ *kt.Device, _ *testing.T, path string) (kt.Op, []any) {
	return kt.Op{Attrs: kt.Attrs{"file_pattern": path, "batch_size": 1}}, nil
}

// fileless are the other ops of the families that use files: they compute, or create objects that other ops read with.
var fileless = []string{
	"ShardedFilespec", "Copy", "CopyHost", "DebugNumericSummaryV2",
	"ParseExample", "ParseExampleV2", "ParseSingleExample", "ParseSequenceExample", "ParseSequenceExampleV2", "ParseSingleSequenceExample",
	"DecodeJSONExample", "DecodeCSV", "DecodeRaw", "DecodePaddedRaw", "DecodeCompressed", "ParseTensor", "SerializeTensor",
	"IdentityReader", "IdentityReaderV2", "WholeFileReader", "WholeFileReaderV2", "TextLineReader", "TextLineReaderV2", "TFRecordReader",
	"TFRecordReaderV2", "FixedLengthRecordReader", "FixedLengthRecordReaderV2", "LMDBReader",
	"ReaderNumRecordsProduced", "ReaderNumRecordsProducedV2", "ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2",
	"ReaderSerializeState", "ReaderSerializeStateV2", "ReaderRestoreState", "ReaderRestoreStateV2", "ReaderReset", "ReaderResetV2",
	"ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummary", "AudioSummaryV2", "TensorSummary", "TensorSummaryV2", "MergeSummary",
	"SummaryWriter", "CreateSummaryDbWriter",
	"HashTable", "HashTableV2", "AnonymousHashTable", "MutableHashTable", "MutableHashTableV2", "AnonymousMutableHashTable",
	"MutableHashTableOfTensors", "MutableHashTableOfTensorsV2", "AnonymousMutableHashTableOfTensors", "MutableDenseHashTable",
	"MutableDenseHashTableV2", "AnonymousMutableDenseHashTable", "InitializeTable", "InitializeTableV2", "LookupTableFind", "LookupTableFindV2",
	"LookupTableInsert", "LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableSize", "LookupTableSizeV2", "LookupTableExport",
	"LookupTableExportV2", "LookupTableImport", "LookupTableImportV2",
}

// elsewhere are the ops that use files in families that otherwise do not, by source file.
var elsewhere = map[string]string{"../random/unigram.go": "FixedUnigramCandidateSampler", "../control/print.go": "PrintV2",
	"../data/internal/dataset/iterator.go": "DatasetToSingleElement",
	"../data/internal/source/csv.go":       "DatasetToSingleElement", "../data/internal/source/files.go": "DatasetToSingleElement",
	"../data/internal/storage/cache.go": "DatasetToSingleElement", "../data/internal/storage/shards.go": "DatasetToSingleElement",
	"../data/internal/storage/snapshot.go": "SaveDataset", "../data/internal/storage/snapshotfile.go": "LoadDataset",
	"../data/internal/storage/tfrecord.go": "DatasetToTFRecord", "../data/internal/passthrough/statistics.go": "StatsAggregatorSetSummaryWriter"}

// TestFileOpsAreListed checks that each op of the families that use files is listed as using them or not, and that no other family opens
// any.
func TestFileOpsAreListed(t *testing.T) {
	for op := range fileOps {
		if op != "DatasetToSingleElement" && !rights.UsesFiles(op) { // its datasets use the files
			t.Errorf("%s uses files, and is not in rights.FileOps", op)
		}
	}
	for _, op := range rights.FileOps() {
		if len(kernels.Rows(op, "CPU")) == 0 {
			t.Errorf("rights.FileOps has %s, which has no kernel", op)
		}
	}
	users := map[string]*kernels.Table{"debug": debug.Table(), "input": input.Table(), "lookup": lookup.Table(), "save": save.Table(), "summary": summary.Table()}
	for _, table := range users {
		for _, op := range table.Ops() {
			if (fileOps[op] == nil) == !slices.Contains(fileless, op) {
				t.Errorf("%s must be in one list: that of the ops that use files, or that of those that do not", op)
			}
		}
	}
	for _, f := range families {
		if users[f.name] != nil {
			continue
		}
		sources := sourcesOf(t, "../"+f.name, ".go")
		if len(sources) == 0 {
			t.Fatalf("%s has no files", f.name)
		}
		for _, name := range sources {
			if op, ok := elsewhere[name]; ok && fileOps[op] != nil {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, way := range []string{"ctx.Files()", "kernels/files\"", "internal/disk\"", "internal/events\"", "kernels/reader\""} {
				if strings.Contains(string(text), way) {
					t.Errorf("%s uses files (%s): its ops belong in the lists of this test", name, way)
				}
			}
		}
	}
}

// TestRefusedFileOps runs each op that uses files for sessions that may not use the file: one without any rights, and some confined to a
// folder, with a path next to it, above it, and through links that lead out of it.
func TestRefusedFileOps(t *testing.T) {
	base := t.TempDir()
	dir, out := filepath.Join(base, "in"), filepath.Join(base, "out")
	for _, name := range []string{dir, out} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(out, "f")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"absolute": out, "relative": "../out", "chain": "relative/.", "self": "/proc/self/cwd/" + out} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	folders, err := files.OpenFolders([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	defer folders.Close()
	confined := folders.Confine("it is not below the folder")
	for _, c := range []struct {
		name string
		fsys files.FS
		path string
	}{
		{"none", files.None("it has no right"), filepath.Join(dir, "f")},
		{"beside", confined, secret},
		{"above", confined, dir + "/../out/f"},
		{"prefix of the name", confined, dir + "2/f"},
		{"absolute link", confined, filepath.Join(dir, "absolute", "f")},
		{"relative link", confined, filepath.Join(dir, "relative", "f")},
		{"chain of links", confined, filepath.Join(dir, "chain", "f")},
		{"file scheme", confined, "file://" + secret},
	} {
		for op, list := range fileOps {
			for _, makeOp := range list {
				t.Run(c.name+"/"+op, func(t *testing.T) {
					d := kt.NewDevice(t)
					o, inputs := makeOp(d, t, c.path)
					o.Type, o.Step = op, kt.NewStep()
					o.Step.Files = files.NewDoor(c.fsys, nil)
					_, err := d.Try(o, inputs...)
					if status.CodeOf(err) != status.PermissionDenied || !strings.Contains(err.Error(), "Permission denied: ") {
						t.Errorf("got %v", err)
					}
				})
			}
		}
	}
	if got, err := os.ReadFile(secret); string(got) != "secret\n" || err != nil {
		t.Errorf("the file outside is %q, %v", got, err)
	}
}

// TestFileOpsOnPipes runs the ops that open a single file on a named pipe whose other end is not open.
func TestFileOpsOnPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	for _, name := range []string{path, path + ".index"} {
		makePipe(t, name)
	}
	for _, op := range []string{"ReadFile", "WriteFile", "RestoreV2", "Restore", "RestoreSlice", "GenerateVocabRemapping", "LoadAndRemapMatrix",
		"RecordInput", "ReaderRead", "ReaderReadV2", "ReaderReadUpToV2", "CreateSummaryFileWriter", "InitializeTableFromTextFileV2"} {
		for _, makeOp := range fileOps[op] {
			t.Run(op, func(t *testing.T) {
				d := kt.NewDevice(t)
				o, inputs := makeOp(d, t, path)
				o.Type = op
				begun := time.Now()
				_, err := d.Try(o, inputs...)
				if err == nil || time.Since(begun) > 5*time.Second {
					t.Errorf("got %v after %v", err, time.Since(begun))
				}
				if op == "ReadFile" && (status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "a named pipe")) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// TestPrintAppendsToAFile prints twice to a file, and reads the start of the file back as a constant.
func TestPrintAppendsToAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	d := kt.NewDevice(t)
	for _, line := range []string{"one", "two"} {
		d.Run(t, kt.Op{Type: "PrintV2", Attrs: kt.Attrs{"output_stream": "file://" + path, "end": ";"}}, kt.Str(nil, line))
	}
	if text, err := os.ReadFile(path); string(text) != "one;two;" {
		t.Errorf("the file has %q, %v", text, err)
	}
	constant := func(n int64) kt.Op {
		return kt.Op{Type: "ImmutableConst", Attrs: kt.Attrs{"memory_region_name": path, "dtype": tensor.Uint8, "shape": tensor.Shape{n}}}
	}
	out := d.Run(t, constant(3))[0].Tensor
	if got := string(out.Data()); got != "one" {
		t.Errorf("the constant is %q", got)
	}
	out.Release()
	if _, err := d.Try(constant(9)); status.CodeOf(err) != status.Internal {
		t.Errorf("beyond the file: %v", err)
	}
}
