// SPDX-License-Identifier: Apache-2.0

/** The create setting that selects the kind of world on a server with several kinds. */
export const worldTypeSetting = "world_type";

/** The join setting that carries a join token. */
export const joinTokenSetting = "join_token";

/** The join setting with which an agent can resume its seat after its stream is lost. */
export const seatKeySetting = "seat_key";
