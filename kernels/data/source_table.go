package data

import (
	"github.com/troupe-run/troupe/kernels"
)

// sourceDatasets returns the ops that create datasets of this package.
func sourceDatasets() []kernels.Def {
	return []kernels.Def{
		{Op: "RangeDataset", New: New(newRange)},
		{Op: "TensorDataset", New: New(newTensors)},
		{Op: "TensorSliceDataset", New: New(newSlices)},
		{Op: "SparseTensorSliceDataset", New: NewWithSpec(newSparseSlices)},
		{Op: "ListDataset", New: New(newList)},
		{Op: "WindowOp", New: New(newList)},
		{Op: "GeneratorDataset", New: New(newGenerator)},
		{Op: "RandomDataset", New: New(newRandom)},
		{Op: "ExperimentalRandomDataset", New: New(newRandom)},
		{Op: "RandomDatasetV2", New: New(newRandomV2)},
		{Op: "TextLineDataset", New: NewWithSpec(newTextLines)},
		{Op: "TFRecordDataset", New: NewWithSpec(newTFRecords)},
		{Op: "TFRecordDatasetV2", New: NewWithSpec(newTFRecords)},
		{Op: "CSVDataset", New: New(newCSV)},
		{Op: "CSVDatasetV2", New: New(newCSV)},
		{Op: "ExperimentalCSVDataset", New: New(newCSV)},
		{Op: "FixedLengthRecordDataset", New: NewWithSpec(newFixedLength)},
		{Op: "FixedLengthRecordDatasetV2", New: NewWithSpec(newFixedLength)},
		{Op: "MatchingFilesDataset", New: NewWithSpec(newMatching)},
		{Op: "ExperimentalMatchingFilesDataset", New: NewWithSpec(newMatching)},
	}
}

// sourceOps returns the other ops.
func sourceOps() []kernels.Def {
	return []kernels.Def{
		{Op: "AnonymousSeedGenerator", New: newSeedGenerator},
		{Op: "AnonymousRandomSeedGenerator", New: newSeedGenerator},
		{Op: "DeleteSeedGenerator", New: kernels.Always(DeleteResource(kindSeeds))},
		{Op: "DeleteRandomSeedGenerator", New: kernels.Always(DeleteResource(kindSeeds))},
	}
}
