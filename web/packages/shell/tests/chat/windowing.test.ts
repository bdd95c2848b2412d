import { expect, test } from "vitest";
import { endOf, spanOf } from "../../src/chat/view/windowing.ts";

const HEIGHTS = [100, 200, 300, 400, 500];

test("the pages that touch what is seen are there", () => {
  expect(spanOf(HEIGHTS, 0, 100)).toEqual({ from: 0, to: 0 });
  expect(spanOf(HEIGHTS, 50, 150)).toEqual({ from: 0, to: 1 });
  expect(spanOf(HEIGHTS, 100, 601)).toEqual({ from: 1, to: 3 });
  expect(spanOf(HEIGHTS, 1_400, 1_500)).toEqual({ from: 4, to: 4 });
});

test("one page at least is there, wherever one looks", () => {
  expect(spanOf(HEIGHTS, -5_000, -4_000)).toEqual({ from: 0, to: 0 });
  expect(spanOf(HEIGHTS, 9_000, 10_000)).toEqual({ from: 4, to: 4 });
  expect(spanOf([100], 0, 0)).toEqual({ from: 0, to: 0 });
});

test("at the end so many pages are there as fill it, and one more than the last", () => {
  expect(endOf(HEIGHTS, 100)).toEqual({ from: 3, to: 4 });
  expect(endOf(HEIGHTS, 1_000)).toEqual({ from: 2, to: 4 });
  expect(endOf(HEIGHTS, 9_000)).toEqual({ from: 0, to: 4 });
  expect(endOf([100], 900)).toEqual({ from: 0, to: 0 });
  expect(endOf([], 900)).toEqual({ from: 0, to: -1 });
});
