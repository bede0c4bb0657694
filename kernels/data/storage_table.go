package data

import (
	"github.com/troupe-run/troupe/kernels"
)

// storageDatasets returns the ops that create datasets of this package.
func storageDatasets() []kernels.Def {
	return []kernels.Def{
		{Op: "LoadDataset", New: New(newLoad)},
		{Op: "SnapshotDatasetReader", New: New(newShardReader)},
		{Op: "SnapshotNestedDatasetReader", New: New(newNestedReader)},
		{Op: "SnapshotChunkDataset", New: New(newChunk)},
		{Op: "ListSnapshotChunksDataset", New: New(newChunks)},
		{Op: "CacheDataset", New: New(newCache)},
		{Op: "CacheDatasetV2", New: New(newCacheV2)},
		{Op: "SaveDatasetV2", New: New(newSaveV2)},
		{Op: "SnapshotDataset", New: New(newLegacySnapshot)},
		{Op: "SnapshotDatasetV2", New: New(newSnapshot)},
	}
}

// storageOps returns the other ops.
func storageOps() []kernels.Def {
	return []kernels.Def{
		{Op: "DatasetToTFRecord", New: WaitingWithPlace(toTFRecord)},
		{Op: "ExperimentalDatasetToTFRecord", New: WaitingWithPlace(toTFRecord)},
		{Op: "SaveDataset", New: newSave},
		{Op: "DatasetFingerprint", New: WithPlace(fingerprintOf)},
		{Op: "CompressElement", New: kernels.Always(compressElement)},
		{Op: "UncompressElement", New: newUncompressElement},
		{Op: "AnonymousMemoryCache", New: newMemoryCache},
		{Op: "DeleteMemoryCache", New: kernels.Always(DeleteResource(kindMemory))},
	}
}
