package shape

import (
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// ioOps are the ops on files, readers, checkpoints and summaries.
var ioOps = []row{
	{"FixedLengthRecordReader IdentityReader LMDBReader TFRecordReader TextLineReader WholeFileReader", pairOut},
	{"FixedLengthRecordReaderV2 IdentityReaderV2 TFRecordReaderV2 TextLineReaderV2 WholeFileReaderV2", scalarOut},
	{`ReadFile ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompletedV2 ReaderReadV2 ReaderResetV2 ReaderSerializeStateV2
		ShardedFilename ShardedFilespec`, scalarsToScalars},
	{"ReaderNumRecordsProduced ReaderNumWorkUnitsCompleted ReaderRead ReaderReset ReaderSerializeState", pairsToScalars},
	{"ReaderReadUpTo", gives(ranks(1, 1, 0), Of(-1), Of(-1))},
	{"ReaderReadUpToV2", gives(ranks(0, 0, 0), Of(-1), Of(-1))},
	{"ReaderRestoreState", func(c *call) {
		c.pair(0)
		c.scalar(1)
	}},
	{"ReaderRestoreStateV2 WriteFile", takes(0, 0)},
	{"MatchingFiles", func(c *call) {
		c.atMost(c.in(0), 1)
		c.set(0, Of(-1))
	}},
	{"MergeV2Checkpoints", takes(1, 0)},
	{"Save", func(c *call) {
		c.scalar(0)
		c.size(c.vector(1).at(0), int64(len(c.In)-2))
	}},
	{"SaveSlices SaveV2", func(c *call) {
		c.scalar(0)
		c.size(c.vector(1).at(0), int64(len(c.In)-3))
		c.size(c.vector(2).at(0), int64(len(c.In)-3))
	}},
	{"Restore", takes(0, 0)},
	{"RestoreSlice", func(c *call) {
		c.scalar(0)
		c.scalar(1)
		c.scalar(2)
		if s, ok := c.texts(2); ok && len(s) == 1 {
			c.set(0, c.sliceOf(s[0]))
		}
	}},
	{"RestoreV2", func(c *call) {
		c.scalar(0)
		c.merge(c.vector(1), c.vector(2))
		s, ok := c.texts(2)
		if ok && len(s) != len(c.Out) {
			c.fail("The number of shape_and_slice doesn't match tensor outputs: %d and %d.", len(s), len(c.Out))
			return
		}
		for i, spec := range s {
			c.set(i, c.sliceOf(spec))
		}
	}},
	{"GenerateVocabRemapping", func(c *call) {
		c.scalar(0)
		c.scalar(1)
		c.set(0, Of(max(c.Int("num_new_vocab"), -1)))
		c.set(1, Scalar())
	}},
	{"LoadAndRemapMatrix", func(c *call) {
		c.scalar(1)
		c.set(0, Of(max(c.Int("num_rows"), -1), max(c.Int("num_cols"), -1)))
	}},
	{"Print", unchanged},
	{"Timestamp", scalarOut},
	{"PrintV2", func(c *call) {
		if s := c.in(0); s.known && len(s.dims) != 0 {
			c.fail("input must be a scalar, but has rank: %d", len(s.dims))
		}
	}},
	{`AudioSummary AudioSummaryV2 HistogramSummary ImageSummary MergeSummary ScalarSummary TensorSummary TensorSummaryV2
		SummaryWriter`, scalarOut},
	{`CloseSummaryWriter CreateSummaryDbWriter CreateSummaryFileWriter FlushSummaryWriter ImportEvent WriteAudioSummary
		WriteGraphSummary WriteHistogramSummary WriteImageSummary WriteRawProtoSummary WriteScalarSummary WriteSummary`, noOutputs},
}

// texts returns an input's value if it is known and consists of strings.
func (c *call) texts(i int) ([]string, bool) {
	t := c.value(i)
	if t == nil {
		return nil, false
	}
	if t.DType() != tensor.String {
		c.fail("Expected an input tensor of type string, got %v.", t.DType())
		return nil, false
	}
	return t.Strings(), true
}

// sliceOf returns the shape of a part of a checkpoint's tensor: "10 20 0,5:-" is [5,20], "" is unknown.
func (c *call) sliceOf(spec string) Shape {
	if spec == "" {
		return Shape{}
	}
	fields := strings.Split(spec, " ")
	parts := strings.Split(fields[len(fields)-1], ":")
	if len(fields) < 2 || len(parts) != len(fields)-1 || len(parts) > tensor.MaxRank {
		c.fail("Need sizes and a slice for each of them in the shape_and_slice string: '%s'", spec)
		return Shape{}
	}
	dims := make(tensor.Shape, len(parts))
	for i, p := range parts {
		whole, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil || whole < 0 {
			c.fail("Invalid size '%s' in the shape_and_slice string: '%s'", fields[i], spec)
			return Shape{}
		}
		dims[i] = whole
		if p == "-" {
			continue
		}
		from, n, ok := strings.Cut(p, ",")
		start, err1 := strconv.ParseInt(from, 10, 64)
		length, err2 := strconv.ParseInt(n, 10, 64)
		if !ok || err1 != nil || err2 != nil || start < 0 || length <= 0 || start > whole || length > whole-start {
			c.fail("Invalid slice '%s' of a dimension of size %d in the shape_and_slice string: '%s'", p, whole, spec)
			return Shape{}
		}
		dims[i] = length
	}
	return Shape{dims, true}
}
