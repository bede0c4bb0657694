package summary_test

import (
	"slices"
	"strings"
	"testing"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	_ "github.com/troupe-run/troupe/kernels/all"
	"github.com/troupe-run/troupe/kernels/internal/png"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// TestSummaryOpsLikeTensorFlow compares summaries as messages, and PNGs by their pixels, since compressors differ.
func TestSummaryOpsLikeTensorFlow(t *testing.T) {
	for _, c := range kt.Golden(t, "testdata/summaryops.jsonl.gz") {
		if c.Err != "" || strings.HasPrefix(c.Op, "Decode") {
			kt.Check(t, *c)
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			d := kt.NewDevice(t)
			var inputs []any
			for _, in := range c.Inputs {
				inputs = append(inputs, in.(*tensor.Tensor).Retain())
			}
			out := d.Run(t, kt.Op{Type: c.Op, Name: c.Node, Raw: c.Raw, Outputs: 1}, inputs...)
			defer func() {
				for _, v := range out {
					v.Release()
				}
			}()
			got, want := out[0].Tensor, c.Want[0]
			if !got.Shape().Equal(want.Shape()) {
				t.Fatalf("shape %v, want %v", got.Shape(), want.Shape())
			}
			for i, text := range got.Strings() {
				if c.Op == "EncodePng" {
					sameImage(t, []byte(text), []byte(want.Strings()[i]))
				} else {
					sameSummary(t, text, want.Strings()[i])
				}
			}
		})
	}
}

func sameSummary(t *testing.T, got, want string) {
	t.Helper()
	var a, b summarypb.Summary
	if err := proto.Unmarshal([]byte(got), &a); err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	for i, v := range a.Value {
		if image := v.GetImage(); image != nil && i < len(b.Value) && b.Value[i].GetImage() != nil {
			sameImage(t, image.EncodedImageString, b.Value[i].GetImage().EncodedImageString)
			image.EncodedImageString, b.Value[i].GetImage().EncodedImageString = nil, nil
		}
	}
	if !proto.Equal(&a, &b) {
		t.Errorf("got\n%v\nwant\n%v", &a, &b)
	}
}

func sameImage(t *testing.T, got, want []byte) {
	t.Helper()
	a, b := pixels(t, got), pixels(t, want)
	if !slices.Equal(a, b) {
		t.Errorf("pixels %v\nwant %v", a, b)
	}
}

// pixels returns the width, height, channels and samples of a PNG.
func pixels(t *testing.T, file []byte) []uint16 {
	t.Helper()
	h, err := png.ReadHeader(string(file), 0)
	if err != nil {
		t.Fatal(err)
	}
	samples := make([]uint16, h.Width*h.Height*h.Channels())
	if err := png.Decode(string(file), h, samples); err != nil {
		t.Fatal(err)
	}
	return append([]uint16{uint16(h.Width), uint16(h.Height), uint16(h.Channels())}, samples...)
}

// A text that a tag or a summary cannot hold is the client's error.
func TestSummaryOfBadText(t *testing.T) {
	kt.Check(t, kt.Case{Op: "ScalarSummary", Inputs: []any{kt.Str(nil, "\xff"), kt.F32(nil, 1)}, Code: 3, Err: "UTF-8"})
}

// Current clients no longer create AudioSummary, but older graphs contain it.
func TestAudioSummary(t *testing.T) {
	d := kt.NewDevice(t)
	run := func(op string, attrs kt.Attrs, inputs ...any) string {
		out := d.Run(t, kt.Op{Type: op, Attrs: attrs, Outputs: 1}, inputs...)
		defer out[0].Release()
		return out[0].Tensor.Strings()[0]
	}
	samples := func() *tensor.Tensor { return kt.F32(kt.S(1, 2), 0.5, -0.5) }
	old := run("AudioSummary", kt.Attrs{"sample_rate": float32(8000), "max_outputs": int64(3)}, kt.Str(nil, "a"), samples())
	if now := run("AudioSummaryV2", nil, kt.Str(nil, "a"), samples(), kt.F32(nil, 8000)); old != now {
		t.Errorf("AudioSummary makes %q, AudioSummaryV2 %q", old, now)
	}
}
