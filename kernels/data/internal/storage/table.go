package storage

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// Datasets returns the ops that create datasets of this package.
func Datasets() []kernels.Def {
	return []kernels.Def{
		{Op: "LoadDataset", New: dataset.New(newLoad)},
		{Op: "SnapshotDatasetReader", New: dataset.New(newShardReader)},
		{Op: "SnapshotNestedDatasetReader", New: dataset.New(newNestedReader)},
		{Op: "SnapshotChunkDataset", New: dataset.New(newChunk)},
		{Op: "ListSnapshotChunksDataset", New: dataset.New(newChunks)},
		{Op: "CacheDataset", New: dataset.New(newCache)},
		{Op: "CacheDatasetV2", New: dataset.New(newCacheV2)},
		{Op: "SaveDatasetV2", New: dataset.New(newSaveV2)},
		{Op: "SnapshotDataset", New: dataset.New(newLegacySnapshot)},
		{Op: "SnapshotDatasetV2", New: dataset.New(newSnapshot)},
	}
}

// Ops returns the other ops.
func Ops() []kernels.Def {
	return []kernels.Def{
		{Op: "DatasetToTFRecord", New: dataset.WaitingWithPlace(toTFRecord)},
		{Op: "ExperimentalDatasetToTFRecord", New: dataset.WaitingWithPlace(toTFRecord)},
		{Op: "SaveDataset", New: newSave},
		{Op: "DatasetFingerprint", New: dataset.WithPlace(fingerprintOf)},
		{Op: "CompressElement", New: kernels.Always(compressElement)},
		{Op: "UncompressElement", New: newUncompressElement},
		{Op: "AnonymousMemoryCache", New: newMemoryCache},
		{Op: "DeleteMemoryCache", New: kernels.Always(dataset.DeleteResource(kindMemory))},
	}
}
