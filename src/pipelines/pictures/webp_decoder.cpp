#include <webp/demux.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "pipelines/pictures/image_decoders.h"

namespace lamina {
namespace {

constexpr std::size_t kStoredChannels = 4;

using Demuxer = std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)>;
using Animation = std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)>;

std::string chunk(const WebPDemuxer* demuxer, const char* name) {
  std::string content;
  WebPChunkIterator found{};
  if (WebPDemuxGetChunk(demuxer, name, 1, &found) != 0)
    content.assign(reinterpret_cast<const char*>(found.chunk.bytes), found.chunk.size);
  WebPDemuxReleaseChunkIterator(&found);
  return content;
}

PictureMetadata read_metadata(const WebPDemuxer* demuxer) {
  constexpr std::string_view kExifPrefix{"Exif\0\0", 6};  // some writers leave JPEG's in place
  PictureMetadata metadata{.exif = chunk(demuxer, "EXIF"),
                           .xmp = chunk(demuxer, "XMP "),
                           .icc_profile = chunk(demuxer, "ICCP"),
                           .texts = {}};
  if (metadata.exif.starts_with(kExifPrefix)) metadata.exif.erase(0, kExifPrefix.size());
  return metadata;
}

/// Red, green and blue of the first frame, on the whole canvas of an animation.
void read_first_frame(const WebPData& data, RgbImage& image, std::string_view source) {
  WebPAnimDecoderOptions options{};
  WebPAnimDecoderOptionsInit(&options);
  options.color_mode = MODE_RGBA;
  const Animation decoder(WebPAnimDecoderNew(&data, &options), WebPAnimDecoderDelete);
  std::uint8_t* rgba = nullptr;
  int time_ms = 0;
  if (!decoder || WebPAnimDecoderGetNext(decoder.get(), &rgba, &time_ms) == 0)
    fail(ErrorCode::corrupt, "{}: not a valid WebP picture: its compressed data is damaged", source);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = rgba[i / 3 * kStoredChannels + i % 3];
}

}  // namespace

PictureFile decode_webp(std::span<const std::byte> bytes, std::string_view source) {
  const WebPData data{reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
  const Demuxer demuxer(WebPDemux(&data), WebPDemuxDelete);
  if (!demuxer) fail(ErrorCode::corrupt, "{}: not a valid WebP picture, or cut short", source);
  PictureFile picture{allocate_image(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT),
                                     WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH), source),
                      read_metadata(demuxer.get())};
  read_first_frame(data, picture.image, source);
  return picture;
}

}  // namespace lamina
