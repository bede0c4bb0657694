//go:build !race

package main

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	handlepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/resource_handle_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/client"
	"golang.org/x/sys/unix"
)

// A bomb is a small graph that asks for much memory.
type bomb struct {
	name string
	draw func(s *op.Scope)
}

// zeros returns zeros of a computed shape: no rule sees how many there are.
func zeros(s *op.Scope, dims ...int32) op.Output { return filled(s, op.Const(s, float32(0)), dims...) }

// filled returns a tensor full of a value. Tensors of different values do not share memory.
func filled(s *op.Scope, value op.Output, dims ...int32) op.Output {
	return op.Fill(s, op.Identity(s, op.Const(s, dims)), value)
}

func hidden[T op.Constant](s *op.Scope, v T) op.Output { return op.Identity(s, op.Const(s, v)) }

// doubled joins a text with itself until it has 2^n times its length.
func doubled(s *op.Scope, text op.Output, n int) op.Output {
	for range n {
		text = op.StringJoin(s, []op.Output{text, text})
	}
	return text
}

// fastest returns a compressor with a level that is known to be valid.
func fastest[W io.WriteCloser](w W, err error) io.WriteCloser {
	if err != nil {
		panic(err)
	}
	return w
}

// compressed returns 1,500 MiB of zeros, compressed.
func compressed(t *testing.T, kind string) string {
	t.Helper()
	var out bytes.Buffer
	w := fastest(gzip.NewWriterLevel(&out, gzip.BestSpeed))
	if kind == "ZLIB" {
		w = fastest(zlib.NewWriterLevel(&out, zlib.BestSpeed))
	}
	block := make([]byte, 1<<20)
	for range 1500 {
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// tinyWAV is a sound of two frames.
const tinyWAV = "RIFF\x28\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x44\xac\x00\x00\x88\x58\x01\x00\x02\x00\x10\x00data\x04\x00\x00\x00\x00\x00\x00\x00"

// hugePNG is the head of an image that claims to have 2^14 by 2^14 pixels.
func hugePNG() string {
	head := []byte("IHDR\x00\x00\x40\x00\x00\x00\x40\x00\x08\x06\x00\x00\x00")
	b := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(head))
	return string(b) + "\x00\x00\x00\x00IDAT\x35\xaf\x06\x1e\x00\x00\x00\x00IEND\xaeB\x60\x82"
}

func bombs(t *testing.T) []bomb {
	many := int32(1<<31 - 1)
	return []bomb{
		{"Fill of strings", func(s *op.Scope) { op.Fill(s, hidden(s, []int32{many}), op.Const(s, "x")) }},
		{"Fill", func(s *op.Scope) { zeros(s, 1<<20, 1<<12) }},
		{"Tile", func(s *op.Scope) { op.Tile(s, zeros(s, 1<<10), hidden(s, []int32{1 << 21})) }},
		{"Tile of strings", func(s *op.Scope) { op.Tile(s, op.Const(s, []string{"x"}), hidden(s, []int32{many})) }},
		{"Pad", func(s *op.Scope) { op.Pad(s, zeros(s, 1), hidden(s, [][]int32{{many / 2, many / 2}})) }},
		{"MirrorPad", func(s *op.Scope) {
			op.MirrorPad(s, zeros(s, 1<<14, 1<<13), hidden(s, [][]int32{{1 << 13, 1 << 13}, {1 << 12, 1 << 12}}), "REFLECT")
		}},
		{"Range", func(s *op.Scope) {
			op.Range(s, hidden(s, int32(0)), hidden(s, many), hidden(s, int32(1)))
		}},
		{"LinSpace", func(s *op.Scope) { op.LinSpace(s, hidden(s, float32(0)), hidden(s, float32(1)), hidden(s, many)) }},
		{"LearnedUnigramCandidateSampler", func(s *op.Scope) {
			op.LearnedUnigramCandidateSampler(s, hidden(s, [][]int64{{1}}), 1, 1, true, int64(many-1))
		}},
		{"FixedUnigramCandidateSampler", func(s *op.Scope) {
			op.FixedUnigramCandidateSampler(s, hidden(s, [][]int64{{1}}), 1, 1, true, int64(many), attr.Unigrams([]float32{1}), attr.NumReservedIDs(int64(many-1)))
		}},
		{"StatelessRandomPoisson", func(s *op.Scope) {
			op.StatelessRandomPoisson(s, hidden(s, []int32{many}), hidden(s, []int32{1, 2}), hidden(s, float32(1)), tensor.Int64)
		}},
		{"StringJoin", func(s *op.Scope) { doubled(s, hidden(s, "0123456789abcdef"), 28) }},
		{"StringFormat", func(s *op.Scope) {
			op.StringFormat(s, []op.Output{zeros(s, 1<<25)}, attr.Template("%s"), attr.Placeholder("%s"), attr.Summarize(-1))
		}},
		{"AsString", func(s *op.Scope) { op.AsString(s, zeros(s, 1<<20), attr.Width(4096)) }},
		{"RegexReplace", func(s *op.Scope) {
			long := doubled(s, hidden(s, "aaaaaaaaaaaaaaaa"), 16)
			op.RegexReplace(s, long, op.Const(s, "a"), doubled(s, hidden(s, "b"), 16))
		}},
		{"RegexReplace by groups", func(s *op.Scope) {
			long := doubled(s, hidden(s, "aaaaaaaaaaaaaaaa"), 20)
			op.RegexReplace(s, long, op.Const(s, "(a*)"), op.Const(s, strings.Repeat(`\1\0`, 200)))
		}},
		{"StringSplit", func(s *op.Scope) {
			long := doubled(s, hidden(s, "a b c d e f g h "), 21)
			op.StringSplit(s, op.Reshape(s, long, op.Const(s, []int32{1})), op.Const(s, " "))
		}},
		{"StringNGrams", func(s *op.Scope) {
			long := op.Reshape(s, doubled(s, hidden(s, "aaaaaaaaaaaaaaaa"), 20), op.Const(s, []int32{1}))
			op.StringNGrams(s, op.Tile(s, long, op.Const(s, []int32{100})), hidden(s, []int64{0, 100}), "", []int64{50}, "", "", 0, false)
		}},
		{"OneHot", func(s *op.Scope) {
			op.OneHot(s, op.Range(s, op.Const(s, int32(0)), hidden(s, int32(1<<16)), op.Const(s, int32(1))), hidden(s, int32(1<<20)), op.Const(s, float32(1)), op.Const(s, float32(0)))
		}},
		{"BroadcastTo", func(s *op.Scope) { op.BroadcastTo(s, hidden(s, float32(1)), hidden(s, []int32{1 << 20, 1 << 12})) }},
		{"ResizeNearestNeighbor", func(s *op.Scope) {
			op.ResizeNearestNeighbor(s, zeros(s, 1, 1, 1, 4), hidden(s, []int32{1 << 15, 1 << 15}))
		}},
		{"ResizeBicubic", func(s *op.Scope) { op.ResizeBicubic(s, zeros(s, 1, 1, 1, 1), hidden(s, []int32{many, 1})) }},
		{"ScaleAndTranslate", func(s *op.Scope) {
			scale := hidden(s, []float32{1, 1e-4})
			op.ScaleAndTranslate(s, zeros(s, 1, 1, 1<<20, 1), hidden(s, []int32{1, 1 << 20}), scale, hidden(s, []float32{0, 0}))
		}},
		{"CropAndResize", func(s *op.Scope) {
			op.CropAndResize(s, zeros(s, 1, 1, 1, 1), zeros(s, 1<<10, 4), op.Cast(s, zeros(s, 1<<10), tensor.Int32), hidden(s, []int32{1 << 10, 1 << 10}))
		}},
		{"ImageProjectiveTransformV2", func(s *op.Scope) {
			op.ImageProjectiveTransformV2(s, zeros(s, 1, 1, 1, 4), zeros(s, 1, 8), hidden(s, []int32{1 << 15, 1 << 15}), "NEAREST")
		}},
		{"ExtractGlimpse", func(s *op.Scope) {
			op.ExtractGlimpse(s, zeros(s, 1, 1, 1, 4), hidden(s, []int32{1 << 15, 1 << 15}), zeros(s, 1, 2))
		}},
		{"CombinedNonMaxSuppression", func(s *op.Scope) {
			half := hidden(s, float32(0.5))
			op.CombinedNonMaxSuppression(s, zeros(s, 2, 1, 1, 4), zeros(s, 2, 1, 1), hidden(s, many), hidden(s, many), half, half)
		}},
		{"FusedResizeAndPadConv2D", func(s *op.Scope) {
			op.FusedResizeAndPadConv2D(s, zeros(s, 1, 1, 1, 1), hidden(s, []int32{1 << 15, 1 << 15}), op.Const(s, [][]int32{{0, 0}, {0, 0}, {0, 0}, {0, 0}}), zeros(s, 1, 1, 1, 1), "REFLECT", []int64{1, 1, 1, 1}, "VALID")
		}},
		{"NonMaxSuppressionV4", func(s *op.Scope) {
			half := hidden(s, float32(0.5))
			op.NonMaxSuppressionV4(s, zeros(s, 1, 4), zeros(s, 1), hidden(s, many), half, half, attr.PadToMaxOutputSize(true))
		}},
		{"TensorListReserve", func(s *op.Scope) {
			op.TensorListReserve(s, op.Const(s, int32(-1)), hidden(s, int32(1<<28)), tensor.Float32)
		}},
		{"TensorListResize", func(s *op.Scope) {
			l := op.EmptyTensorList(s, op.Const(s, int32(-1)), op.Const(s, int32(-1)), tensor.Float32)
			op.TensorListResize(s, l, hidden(s, many))
		}},
		{"TensorListSetItem", func(s *op.Scope) {
			l := op.EmptyTensorList(s, op.Const(s, int32(-1)), op.Const(s, int32(-1)), tensor.Float32)
			op.TensorListSetItem(s, l, hidden(s, many-1), op.Const(s, float32(1)), attr.ResizeIfIndexOutOfBounds(true))
		}},
		{"TensorArray", func(s *op.Scope) { op.TensorArrayV3(s, hidden(s, int32(1<<26)), tensor.Float32) }},
		{"MatMul", func(s *op.Scope) { op.MatMul(s, zeros(s, 1<<18, 1), zeros(s, 1, 1<<18)) }},
		{"Conv2DBackpropInput", func(s *op.Scope) {
			op.Conv2DBackpropInput(s, hidden(s, []int32{1 << 10, 1 << 10, 1 << 10, 1}), zeros(s, 1, 1, 1, 1), zeros(s, 1<<10, 1<<10, 1<<10, 1), []int64{1, 1, 1, 1}, "SAME")
		}},
		{"Bincount", func(s *op.Scope) { op.Bincount(s, hidden(s, []int32{1}), hidden(s, many), hidden(s, []float32{})) }},
		{"HistogramFixedWidth", func(s *op.Scope) {
			op.HistogramFixedWidth(s, hidden(s, []float32{1}), hidden(s, []float32{0, 2}), hidden(s, int32(120_000_000)))
		}},
		{"UnsortedSegmentSum", func(s *op.Scope) {
			op.UnsortedSegmentSum(s, hidden(s, []float32{1}), hidden(s, []int32{1}), hidden(s, int32(300_000_000)))
		}},
		{"SparseToDense", func(s *op.Scope) {
			op.SparseToDense(s, hidden(s, []int32{1}), hidden(s, []int32{many}), hidden(s, float32(1)), hidden(s, float32(0)))
		}},
		{"Diag", func(s *op.Scope) { op.Diag(s, zeros(s, 1<<17)) }},
		{"MatrixDiag", func(s *op.Scope) { op.MatrixDiag(s, zeros(s, 1<<17)) }},
		{"Qr", func(s *op.Scope) { op.Qr(s, zeros(s, 9000, 1), attr.FullMatrices(true)) }},
		{"IRFFT", func(s *op.Scope) {
			op.IRFFT(s, op.Cast(s, zeros(s, 1<<26+1), tensor.Complex64), hidden(s, []int32{1 << 27}))
		}},
		{"RFFT", func(s *op.Scope) { op.RFFT(s, zeros(s, 60_000_001), hidden(s, []int32{60_000_001})) }},
		{"ScatterNd", func(s *op.Scope) {
			op.ScatterNd(s, hidden(s, [][]int32{{1}}), hidden(s, []float32{1}), hidden(s, []int32{many}))
		}},
		{"RaggedRange", func(s *op.Scope) { op.RaggedRange(s, hidden(s, int32(0)), hidden(s, many), hidden(s, int32(1))) }},
		{"RandomUniform", func(s *op.Scope) { op.RandomUniform(s, hidden(s, []int32{many}), tensor.Float32) }},
		{"StatelessRandomUniform", func(s *op.Scope) { op.StatelessRandomUniform(s, hidden(s, []int32{many}), hidden(s, []int32{1, 2})) }},
		{"Multinomial", func(s *op.Scope) { op.Multinomial(s, hidden(s, [][]float32{{1, 2}}), hidden(s, many)) }},
		{"GatherV2", func(s *op.Scope) {
			op.GatherV2(s, zeros(s, 1<<16, 1), op.Cast(s, zeros(s, 1<<15), tensor.Int32), op.Const(s, int32(1)))
		}},
		{"DecodeCompressed GZIP", func(s *op.Scope) {
			op.DecodeCompressed(s, hidden(s, compressed(t, "GZIP")), attr.CompressionType("GZIP"))
		}},
		{"DecodeCompressed ZLIB", func(s *op.Scope) {
			op.DecodeCompressed(s, hidden(s, compressed(t, "ZLIB")), attr.CompressionType("ZLIB"))
		}},
		{"DecodePng", func(s *op.Scope) { op.DecodePng(s, hidden(s, hugePNG())) }},
		{"variants in a loop", func(s *op.Scope) {
			l := op.EmptyTensorList(s, op.Const(s, int32(-1)), op.Const(s, int32(-1)), tensor.Float32)
			op.While(s, []op.Output{l}, func(s *op.Scope, _ []op.Output) op.Output { return op.Const(s, true) },
				func(s *op.Scope, v []op.Output) []op.Output {
					n := op.Cast(s, op.TensorListLength(s, v[0]), tensor.Float32)
					return []op.Output{op.TensorListPushBack(s, v[0], filled(s, n, 1<<10))}
				})
		}},
		{"DecodeWav", func(s *op.Scope) {
			op.DecodeWav(s, hidden(s, tinyWAV), attr.DesiredSamples(int64(many)), attr.DesiredChannels(2))
		}},
		{"AudioSpectrogram", func(s *op.Scope) { op.AudioSpectrogram(s, zeros(s, 1<<27, 1), 1<<20, 1) }},
		{"Mfcc", func(s *op.Scope) {
			op.Mfcc(s, zeros(s, 1, 1, 65), hidden(s, int32(16000)), attr.FilterbankChannelCount(1<<15), attr.DctCoefficientCount(1<<15))
		}},
		{"CTCBeamSearchDecoder", func(s *op.Scope) {
			op.CTCBeamSearchDecoder(s, zeros(s, 8, 1, 1<<10), hidden(s, []int32{8}), 1<<24, 1)
		}},
		{"ExtractImagePatches", func(s *op.Scope) {
			op.ExtractImagePatches(s, zeros(s, 1, 64, 64, 1), []int64{1, 1 << 10, 1 << 10, 1}, []int64{1, 1, 1, 1}, []int64{1, 1, 1, 1}, "SAME")
		}},
		{"ExtractVolumePatches", func(s *op.Scope) {
			op.ExtractVolumePatches(s, zeros(s, 1, 16, 16, 16, 1), []int64{1, 64, 64, 64, 1}, []int64{1, 1, 1, 1, 1}, "SAME")
		}},
		{"RaggedTensorToTensor", func(s *op.Scope) {
			op.RaggedTensorToTensor(s, hidden(s, []int64{1 << 20, 1 << 20}), hidden(s, []float32{1}), hidden(s, float32(0)), []op.Output{hidden(s, []int64{0, 1})}, []string{"ROW_SPLITS"})
		}},
		{"DecodePaddedRaw", func(s *op.Scope) {
			op.DecodePaddedRaw(s, hidden(s, []string{"x"}), hidden(s, many-3), tensor.Float32)
		}},
		{"SparseBincount", func(s *op.Scope) {
			op.SparseBincount(s, hidden(s, [][]int64{{0}}), hidden(s, []int32{1}), hidden(s, []int64{1}), hidden(s, many), hidden(s, []float32{}))
		}},
		{"elements that stay in a staging area", func(s *op.Scope) {
			for i := range 40 {
				op.Stage(s, []op.Output{filled(s, op.Const(s, float32(i)), 1<<23)}, attr.SharedName("bomb"))
			}
		}},
		{"elements that stay in a map", func(s *op.Scope) {
			for i := range int64(40) {
				op.MapStage(s, hidden(s, i), hidden(s, []int32{0}), []op.Output{filled(s, op.Const(s, float32(i)), 1<<23)}, []tensor.DType{tensor.Float32})
			}
		}},
		{"elements that stay in a barrier", func(s *op.Scope) {
			b := op.Barrier(s, []tensor.DType{tensor.Float32}, attr.Shapes([]shape.Shape{shape.Of(1 << 22)}))
			for i := range 40 {
				key := op.AsString(s, op.RandomUniform(s, hidden(s, []int32{2}), tensor.Float32))
				op.BarrierInsertMany(s, b, key, filled(s, op.Const(s, float32(i)), 2, 1<<22), 0)
			}
		}},
		{"elements that stay in a queue", func(s *op.Scope) {
			q := op.NewFIFOQueue(s, []tensor.DType{tensor.Float32})
			for i := range 40 {
				q.Enqueue(s, filled(s, op.Const(s, float32(i)), 1<<23))
			}
		}},
	}
}

// claim returns a constant of n elements, of which its message holds one.
func claim(dtype typespb.DataType, n int64) *graphpb.GraphDef {
	p := &tensorpb.TensorProto{Dtype: dtype, TensorShape: &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: n}}}}
	switch dtype {
	case typespb.DataType_DT_STRING:
		p.StringVal = [][]byte{[]byte("x")}
	case typespb.DataType_DT_RESOURCE:
		p.ResourceHandleVal = []*handlepb.ResourceHandleProto{{Name: "x"}}
	default:
		p.FloatVal = []float32{1}
	}
	return &graphpb.GraphDef{Node: []*nodepb.NodeDef{{Name: "claim", Op: "Const", Attr: map[string]*attrpb.AttrValue{
		"dtype": {Value: &attrpb.AttrValue_Type{Type: dtype}}, "value": {Value: &attrpb.AttrValue_Tensor{Tensor: p}}}}}}
}

// TestMemoryBombs: a server that may hold 1 GiB refuses what does not fit, by name and within seconds, and never uses
// much more. It also has a limit of the system: a failure then kills only the server.
func TestMemoryBombs(t *testing.T) {
	if !extent.Check() {
		t.Skip("takes a minute")
	}
	p := startFor(t, 10*patience, nil, "serve", "--process-memory", "1GiB", "--local=localhost:0")
	limit := unix.Rlimit{Cur: 8 << 30, Max: 8 << 30}
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_AS, &limit, nil); err != nil {
		t.Fatal(err)
	}
	address := p.target()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = p.stderr.WriteTo(os.Stderr) // an unread log would block the server
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-drained
	})
	ctx := t.Context()
	c, err := client.Dial(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	for _, b := range bombs(t) {
		t.Run(b.name, func(t *testing.T) {
			s := op.NewScope()
			b.draw(s)
			def, err := s.GraphDef()
			if err != nil {
				t.Fatal(err)
			}
			explode(t, p, c, def)
			if err := c.Reset(t.Context()); err != nil { // what remains in containers
				t.Error(err)
			}
		})
	}
	for _, dtype := range []typespb.DataType{typespb.DataType_DT_FLOAT, typespb.DataType_DT_STRING, typespb.DataType_DT_RESOURCE} {
		for _, n := range []int64{1 << 28, 1 << 31, 1 << 36} {
			t.Run(fmt.Sprintf("%v constants of type %v", n, dtype), func(t *testing.T) { explode(t, p, c, claim(dtype, n)) })
		}
	}
}

// explode runs all of a graph, which must fail for lack of memory, and then checks the server.
func explode(t *testing.T, p *process, c *client.Client, def *graphpb.GraphDef) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := c.NewSession(ctx, def, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(ctx)
	var targets []string
	for _, n := range def.Node {
		targets = append(targets, n.Name)
	}
	begun := time.Now()
	_, err = session.Run(ctx, nil, nil, targets)
	took := time.Since(begun)
	var e *status.Error
	refused := errors.As(err, &e) && (e.Code == status.ResourceExhausted || e.Code == status.InvalidArgument && (strings.Contains(e.Message, "too large") || strings.Contains(e.Message, "Invalid PNG")))
	if !refused {
		t.Errorf("%v after %v; want RESOURCE_EXHAUSTED", err, took)
	}
	most := memory(t, p.cmd.Process.Pid, "VmHWM:")
	t.Logf("%v: %.300v; %d MiB", took, err, most>>20)
	if most > 1700<<20 {
		t.Errorf("the server came to have %d MiB", most>>20)
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Logf("the peak of memory cannot be reset: %v", err)
	}
}

// memory returns a field of a process's status in bytes.
func memory(t *testing.T, pid int, field string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "\n"+field)
	if !ok {
		t.Fatalf("the status of process %d has no %s", pid, field)
	}
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
